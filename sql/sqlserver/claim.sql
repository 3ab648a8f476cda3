-- claim: leases the next queued jobs to one worker, after queueing what has become due.
-- The ORDER BY is the index's, to the letter, and the WHERE its filter: with a Sort in the plan the locks would be on
-- every queued row, and everybody else would see an empty queue. Hence also the literal TOP (1), and for more a plan
-- made for one. What is set or put out must stand in the CTE's list.
DECLARE @worker nvarchar(129) = N'node-1', @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @lease_s int = 600, @unstarted int = 0, @batch int = 1;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up

UPDATE TOP (100) [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
   SET Status = 'Queued', DueAtUtc = NULL
 WHERE Status = 'Scheduled' AND DueAtUtc <= @now;

IF @batch = 1
BEGIN
    WITH next_job AS (
        SELECT TOP (1)
               JobId, CompositionId, PayloadJson, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc,
               CompletedAtUtc, OutputUrl, RetryCount, LastErrorMessage, StartedAtUtc, DueAtUtc, EndedAtUtc, LeasedAtUtc,
               MaxRetries, LeaseToken, LeaseSeconds, DedupKey, Progress
          FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
         WHERE Status = 'Queued'
         ORDER BY Priority DESC, CreatedAtUtc ASC, JobId ASC
    )
    UPDATE next_job
       SET Status = 'Processing', WorkerNodeId = @worker, LeaseToken = @token, LeaseSeconds = @lease_s,
           LockedAtUtc = @at, LeasedAtUtc = @at, Progress = NULL,
           StartedAtUtc = CASE WHEN @unstarted = 0
                                 OR (@unstarted = 2 AND ISNULL(RetryCount, 0) = 0 AND ISNULL(MaxRetries, 3) > 0)
                               THEN @now END
    OUTPUT CONVERT(char(36), inserted.JobId), CONVERT(char(36), inserted.LeaseToken),
           CAST(inserted.Status AS nvarchar(20)), CAST(inserted.CompositionId AS nvarchar(max)),
           CAST(inserted.PayloadJson AS nvarchar(max)), CAST(inserted.OutputUrl AS nvarchar(max)),
           inserted.DedupKey, CAST(inserted.WorkerNodeId AS nvarchar(max)),
           CAST(inserted.LastErrorMessage AS nvarchar(max)), inserted.Progress,
           CAST(ISNULL(inserted.Priority, 0) AS int), CAST(ISNULL(inserted.RetryCount, 0) AS int),
           ISNULL(inserted.MaxRetries, 3),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.CreatedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.LockedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.StartedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.DueAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.CompletedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.EndedAtUtc),
           CAST(NULL AS bigint)
    OPTION (MAXDOP 1);
END
ELSE
BEGIN
    WITH next_job AS (
        SELECT TOP (@batch)
               JobId, CompositionId, PayloadJson, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc,
               CompletedAtUtc, OutputUrl, RetryCount, LastErrorMessage, StartedAtUtc, DueAtUtc, EndedAtUtc, LeasedAtUtc,
               MaxRetries, LeaseToken, LeaseSeconds, DedupKey, Progress
          FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
         WHERE Status = 'Queued'
         ORDER BY Priority DESC, CreatedAtUtc ASC, JobId ASC
    )
    UPDATE next_job
       SET Status = 'Processing', WorkerNodeId = @worker, LeaseToken = @token, LeaseSeconds = @lease_s,
           LockedAtUtc = @at, LeasedAtUtc = @at, Progress = NULL,
           StartedAtUtc = CASE WHEN @unstarted = 0
                                 OR (@unstarted = 2 AND ISNULL(RetryCount, 0) = 0 AND ISNULL(MaxRetries, 3) > 0)
                               THEN @now END
    OUTPUT CONVERT(char(36), inserted.JobId), CONVERT(char(36), inserted.LeaseToken),
           CAST(inserted.Status AS nvarchar(20)), CAST(inserted.CompositionId AS nvarchar(max)),
           CAST(inserted.PayloadJson AS nvarchar(max)), CAST(inserted.OutputUrl AS nvarchar(max)),
           inserted.DedupKey, CAST(inserted.WorkerNodeId AS nvarchar(max)),
           CAST(inserted.LastErrorMessage AS nvarchar(max)), inserted.Progress,
           CAST(ISNULL(inserted.Priority, 0) AS int), CAST(ISNULL(inserted.RetryCount, 0) AS int),
           ISNULL(inserted.MaxRetries, 3),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.CreatedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.LockedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.StartedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.DueAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.CompletedAtUtc),
           DATEDIFF_BIG(MILLISECOND, '1970-01-01', inserted.EndedAtUtc),
           CAST(NULL AS bigint)
    OPTION (MAXDOP 1, OPTIMIZE FOR (@batch = 1));
END;
