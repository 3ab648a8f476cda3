-- claim: leases the next queued jobs to one worker, after queueing what has become due.
-- The first read takes no write lock: when it finds nothing, the rest is not run.
-- The payload is read in a statement of its own: RETURNING would hold it in memory three times.
-- IN (SELECT ...) costs two temporary tables, so one job is claimed without it, and nothing is queued unless it is due.
.parameter init
.parameter set :worker "'node-1'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :lease_s 600
.parameter set :unstarted 0
.parameter set :batch 1
-- statement
SELECT 1
 WHERE EXISTS (SELECT 1 FROM "VideoRenderJobs" WHERE Status = 'Queued')
    OR EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status = 'Scheduled'
                  AND DueAtUtc <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER));

UPDATE "VideoRenderJobs"
   SET Status = 'Queued', DueAtUtc = NULL
 WHERE EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status = 'Scheduled'
                  AND DueAtUtc <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
   AND rowid IN (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Scheduled"
                  WHERE Status = 'Scheduled'
                    AND DueAtUtc <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
                  ORDER BY DueAtUtc LIMIT 100);

UPDATE "VideoRenderJobs"
   SET Status = 'Processing', WorkerNodeId = :worker, LeaseToken = :token, LeaseSeconds = :lease_s,
       LockedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeasedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       StartedAtUtc = CASE WHEN :unstarted = 0
                             OR (:unstarted = 2 AND ifnull(RetryCount, 0) = 0 AND ifnull(MaxRetries, 3) > 0)
                           THEN CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) END,
       Progress = NULL
 WHERE :batch = 1
   AND rowid = (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Queued"
                 WHERE Status = 'Queued'
                 ORDER BY Priority DESC, CreatedAtUtc, JobId LIMIT 1);

UPDATE "VideoRenderJobs"
   SET Status = 'Processing', WorkerNodeId = :worker, LeaseToken = :token, LeaseSeconds = :lease_s,
       LockedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeasedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       StartedAtUtc = CASE WHEN :unstarted = 0
                             OR (:unstarted = 2 AND ifnull(RetryCount, 0) = 0 AND ifnull(MaxRetries, 3) > 0)
                           THEN CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) END,
       Progress = NULL
 WHERE :batch > 1
   AND rowid IN (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Queued"
                  WHERE Status = 'Queued'
                  ORDER BY Priority DESC, CreatedAtUtc, JobId LIMIT :batch);

SELECT JobId, LeaseToken, Status, CompositionId, PayloadJson, OutputUrl, DedupKey, WorkerNodeId,
       LastErrorMessage, Progress, Priority, RetryCount, ifnull(MaxRetries, 3), CreatedAtUtc, LockedAtUtc,
       StartedAtUtc, DueAtUtc, CompletedAtUtc, EndedAtUtc, NULL
  FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Token"
 WHERE LeaseToken = :token AND Status = 'Processing';
