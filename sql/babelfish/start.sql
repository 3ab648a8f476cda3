-- start: marks a job that was claimed ahead as started, and begins its lease anew; with @taker and @fresh it also
-- hands it to another worker under a new token.
-- The row is read afterwards: see start_many.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @lease_s int = NULL, @taker nvarchar(129) = NULL, @fresh uniqueidentifier = NULL;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up

UPDATE [dbo].[VideoRenderJobs]
   SET StartedAtUtc = COALESCE(StartedAtUtc, @now), LockedAtUtc = @at, LeasedAtUtc = @at,
       LeaseSeconds = COALESCE(@lease_s, LeaseSeconds), WorkerNodeId = COALESCE(@taker, WorkerNodeId),
       LeaseToken = COALESCE(@fresh, LeaseToken)
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';
IF @@ROWCOUNT > 0
    SELECT LeaseSeconds, DATEDIFF_BIG(MILLISECOND, '1970-01-01', StartedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', LockedAtUtc)
      FROM [dbo].[VideoRenderJobs]
     WHERE JobId = @id AND LeaseToken = COALESCE(@fresh, @token) AND LeasedAtUtc = LockedAtUtc
       AND Status = 'Processing';
