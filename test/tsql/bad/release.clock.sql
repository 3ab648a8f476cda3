-- expect clock: GETUTCDATE
-- release: gives the job back, uncounted. The token stays for a repeat.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @delay_ms bigint = 0;
-- statement
DECLARE @now datetime2(7) = GETUTCDATE();

UPDATE [dbo].[VideoRenderJobs]
   SET Status = CASE WHEN @delay_ms > 0 THEN 'Scheduled' ELSE 'Queued' END,
       DueAtUtc = CASE WHEN @delay_ms > 0
                       THEN DATEADD(MILLISECOND, CAST(@delay_ms % 86400000 AS int),
                                    DATEADD(DAY, CAST(@delay_ms / 86400000 AS int), @now)) END,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';
IF @@ROWCOUNT > 0
    SELECT 1;
