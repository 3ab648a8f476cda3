-- expect unable: OUTPUT of an expression
-- release: puts out what no OUTPUT can there.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918', @delay_ms bigint = 0;
-- statement
UPDATE [dbo].[VideoRenderJobs]
   SET Status = CASE WHEN @delay_ms > 0 THEN 'Scheduled' ELSE 'Queued' END, WorkerNodeId = NULL, LockedAtUtc = NULL,
       StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
OUTPUT CAST(1 AS int)
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';
