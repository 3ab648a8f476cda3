-- take: leases the next job to one worker in the caller's own transaction, which is going to complete it: a queued one,
-- or if there is none, one that is due. The first read takes no write lock: when it finds nothing, the rest is not run.
.parameter init
.parameter set :worker "'node-1'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :lease_s 600
-- statement
SELECT 1
 WHERE EXISTS (SELECT 1 FROM "VideoRenderJobs" WHERE Status = 'Queued')
    OR EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status = 'Scheduled'
                  AND DueAtUtc <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER));

UPDATE "VideoRenderJobs"
   SET Status = 'Processing', WorkerNodeId = :worker, LeaseToken = :token, LeaseSeconds = :lease_s,
       LockedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeasedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       StartedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER),
       DueAtUtc = NULL, Progress = NULL
 WHERE rowid = (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Queued"
                 WHERE Status = 'Queued'
                 ORDER BY Priority DESC, CreatedAtUtc, JobId LIMIT 1);

UPDATE "VideoRenderJobs"
   SET Status = 'Processing', WorkerNodeId = :worker, LeaseToken = :token, LeaseSeconds = :lease_s,
       LockedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeasedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       StartedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER),
       DueAtUtc = NULL, Progress = NULL
 WHERE changes() = 0
   AND rowid = (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Scheduled"
                 WHERE Status = 'Scheduled'
                   AND DueAtUtc <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
                 ORDER BY DueAtUtc LIMIT 1);

SELECT JobId, LeaseToken, Status, CompositionId, PayloadJson, OutputUrl, DedupKey, WorkerNodeId,
       LastErrorMessage, Progress, Priority, RetryCount, ifnull(MaxRetries, 3), CreatedAtUtc, LockedAtUtc,
       StartedAtUtc, DueAtUtc, CompletedAtUtc, EndedAtUtc, NULL
  FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Token"
 WHERE LeaseToken = :token AND Status = 'Processing';
