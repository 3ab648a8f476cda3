-- list: a page of jobs behind an id, without their payloads.
.parameter init
.parameter set :after NULL
.parameter set :state NULL
.parameter set :composition_id NULL
.parameter set :worker NULL
.parameter set :page 100
-- statement
SELECT JobId, LeaseToken, Status, CompositionId, NULL, OutputUrl, DedupKey, WorkerNodeId,
       LastErrorMessage, Progress, Priority, RetryCount, ifnull(MaxRetries, 3), CreatedAtUtc, LockedAtUtc,
       StartedAtUtc, DueAtUtc, CompletedAtUtc, EndedAtUtc,
       CASE WHEN Status = 'Processing'
            THEN LockedAtUtc + 1000 * CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END
                 - CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) END
  FROM "VideoRenderJobs"
 WHERE JobId > ifnull(:after, x'')
   AND (:state IS NULL OR Status = :state
        OR (:state = 'Other' AND Status NOT IN ('Scheduled', 'Queued', 'Processing', 'Completed', 'DeadLetter',
                                                'Cancelled')))
   AND (:composition_id IS NULL OR CompositionId = :composition_id)
   AND (:worker IS NULL OR WorkerNodeId = :worker)
 ORDER BY JobId
 LIMIT :page;
