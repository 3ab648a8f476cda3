-- The rendering of ../claim.sql. Their clock has 100 ns and as good as never stands on a whole second, which the times
-- of the library's leases always do; one of milliseconds would once in a thousand claims.
-- statement
UPDATE "VideoRenderJobs"
   SET Status = 'Processing', WorkerNodeId = :workerNodeId,
       LockedAtUtc = (SELECT n + (n % 1000 = 0)
                        FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) AS n))
 WHERE JobId = (SELECT JobId FROM "VideoRenderJobs"
                 WHERE Status = 'Queued'
                 ORDER BY Priority DESC, CreatedAtUtc LIMIT 1)
RETURNING JobId, CompositionId, PayloadJson, RetryCount;
