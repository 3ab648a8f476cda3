-- reap: ends leases that have run out. A started job counts a failure and waits 2^failures seconds, at most an
-- hour, plus up to a quarter, or is dead; an unstarted one is queued again, uncounted. A foreign lease counts, and
-- lasts 600 s.
-- The first read takes no write lock: when it finds nothing, the rest is not run.
.parameter init
.parameter set :batch 1000
-- statement
WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
SELECT 1 FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Leased"
 WHERE Status = 'Processing'
   AND LockedAtUtc <= (SELECT now FROM clock) - 1000
   AND LockedAtUtc <= (SELECT now FROM clock)
       - 1000 * CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END
 LIMIT 1;

WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
UPDATE "VideoRenderJobs"
   SET Status = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN 'Queued'
                     WHEN ifnull(RetryCount, 0) >= ifnull(MaxRetries, 3) THEN 'DeadLetter'
                     ELSE 'Scheduled' END,
       DueAtUtc = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN NULL
                       WHEN ifnull(RetryCount, 0) >= ifnull(MaxRetries, 3) THEN NULL
                       ELSE (SELECT now FROM clock)
                            + min(3600, 1 << min(12, ifnull(RetryCount, 0) + 1))
                              * (1000 + abs(random() % 251)) END,
       EndedAtUtc = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN NULL
                         WHEN ifnull(RetryCount, 0) >= ifnull(MaxRetries, 3) THEN (SELECT now FROM clock) END,
       RetryCount = ifnull(RetryCount, 0)
                    + CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN 0 ELSE 1 END,
       LastErrorMessage = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN LastErrorMessage
                               ELSE 'the lease of ' || ifnull(WorkerNodeId, 'a worker') || ' ran out' END,
       LeaseToken = NULL,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE rowid IN (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Leased"
                  WHERE Status = 'Processing'
                    AND LockedAtUtc <= (SELECT now FROM clock) - 1000
                    AND LockedAtUtc <= (SELECT now FROM clock)
                        - 1000 * CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END
                  ORDER BY LockedAtUtc LIMIT :batch)
RETURNING JobId, Status;
