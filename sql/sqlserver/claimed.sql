-- claimed: the jobs of a claim whose reply was lost, by its token. It reads past what is locked: a row that the first
-- request is still writing is not seen, and is looked for again later.
DECLARE @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918';
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();

SELECT CONVERT(char(36), JobId), CONVERT(char(36), LeaseToken), CAST(Status AS nvarchar(20)),
       CAST(CompositionId AS nvarchar(max)), CAST(PayloadJson AS nvarchar(max)),
       CAST(OutputUrl AS nvarchar(max)), DedupKey, CAST(WorkerNodeId AS nvarchar(max)),
       CAST(LastErrorMessage AS nvarchar(max)), Progress,
       CAST(ISNULL(Priority, 0) AS int), CAST(ISNULL(RetryCount, 0) AS int), ISNULL(MaxRetries, 3),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', CreatedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', LockedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', StartedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', DueAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', CompletedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', EndedAtUtc),
       CASE WHEN Status = 'Processing'
            THEN DATEDIFF_BIG(MILLISECOND, @now,
                              DATEADD(SECOND, CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END,
                                      LockedAtUtc)) END
  FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)
 WHERE Status = 'Processing' AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc;
