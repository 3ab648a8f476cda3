-- expect unable: @@ROWCOUNT is 0 behind an OUTPUT
-- reap: counts what was put out.
DECLARE @batch int = 1000;
-- statement
DECLARE @seen int;
UPDATE TOP (@batch) [dbo].[VideoRenderJobs]
   SET Status = 'Queued', LeaseToken = NULL, WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL,
       LeasedAtUtc = NULL, LeaseSeconds = NULL
OUTPUT inserted.JobId, inserted.Status
 WHERE Status = 'Processing' AND LockedAtUtc <= LeasedAtUtc;
SET @seen = @@ROWCOUNT;
SELECT @seen;
