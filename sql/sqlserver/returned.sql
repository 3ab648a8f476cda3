-- returned: whether a fail or a release whose reply was lost took effect; they differ in the count they leave.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @retry_count int = 1;
-- statement
SELECT 1
  FROM [dbo].[VideoRenderJobs] WITH (READCOMMITTEDLOCK)
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc IS NULL AND LockedAtUtc IS NULL
   AND Status IN ('Queued', 'Scheduled', 'DeadLetter') AND ISNULL(RetryCount, 0) = @retry_count;
