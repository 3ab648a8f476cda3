-- get: one job by its id.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000';
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
  FROM [dbo].[VideoRenderJobs]
 WHERE JobId = @id;
