-- watchdog: what has been locked for more than ten minutes is queued again.
-- statement
UPDATE dbo.VideoRenderJobs
SET Status = 'Queued', WorkerNodeId = NULL, LockedAtUtc = NULL
WHERE Status = 'Processing' AND LockedAtUtc < DATEADD(MINUTE, -10, SYSUTCDATETIME());
