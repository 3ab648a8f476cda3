-- The rendering of ../watchdog.sql.
-- statement
UPDATE "VideoRenderJobs"
   SET Status = 'Queued', WorkerNodeId = NULL, LockedAtUtc = NULL
 WHERE Status = 'Processing'
   AND LockedAtUtc < CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) - 600000;
