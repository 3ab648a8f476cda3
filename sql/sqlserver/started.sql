-- started: whether a hand-out whose reply was lost took effect; @token is the fresh one.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918';
-- statement
SELECT LeaseSeconds, DATEDIFF_BIG(MILLISECOND, '1970-01-01', StartedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', LockedAtUtc)
  FROM [dbo].[VideoRenderJobs] WITH (READCOMMITTEDLOCK)
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';
