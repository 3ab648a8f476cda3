-- expect state: the state cancelled is spelled Cancelled
-- cancel: ends a job that has not ended; its worker's lease is void.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000';
-- statement
UPDATE [dbo].[VideoRenderJobs]
   SET Status = 'cancelled', EndedAtUtc = SYSUTCDATETIME(), DueAtUtc = NULL, LeaseToken = NULL,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = @id AND Status IN ('Scheduled', 'Queued', 'Processing');
IF @@ROWCOUNT > 0
    SELECT CAST(1 AS bit), N'Cancelled';
ELSE
    SELECT CAST(0 AS bit), CAST(Status AS nvarchar(20)) FROM [dbo].[VideoRenderJobs] WHERE JobId = @id;
