-- settle: an operator's complete, without a lease. It can spare a job whose lease was renewed and has not run out.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000', @output_url nvarchar(2049) = NULL,
        @spare_renewed bit = 0;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();

UPDATE [dbo].[VideoRenderJobs]
   SET Status = 'Completed', CompletedAtUtc = @now, OutputUrl = COALESCE(@output_url, OutputUrl),
       DueAtUtc = NULL, EndedAtUtc = NULL, LeaseToken = NULL,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = @id AND Status <> 'Completed'
   AND (@spare_renewed = 0 OR Status <> 'Processing' OR LeasedAtUtc IS NULL OR LeasedAtUtc <> LockedAtUtc
        OR StartedAtUtc IS NULL OR LockedAtUtc <= DATEADD(SECOND, 1, StartedAtUtc)
        OR DATEADD(SECOND, LeaseSeconds, LockedAtUtc) <= @now);
IF @@ROWCOUNT > 0
    SELECT CAST(1 AS bit), N'Completed';
ELSE
    SELECT CAST(0 AS bit), CAST(Status AS nvarchar(20)) FROM [dbo].[VideoRenderJobs] WHERE JobId = @id;
