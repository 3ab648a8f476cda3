-- take: leases the next job to one worker in the caller's own transaction, which is going to complete it.
-- As in claim, but nothing is promoted: it would stay locked for all the transaction's length. So a queued job is
-- taken, and if there is none, one that is due.
DECLARE @worker nvarchar(129) = N'node-1', @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @lease_s int = 600;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up

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
       LockedAtUtc = @at, LeasedAtUtc = @at, StartedAtUtc = @now, DueAtUtc = NULL, Progress = NULL
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

IF @@ROWCOUNT = 0
BEGIN
    WITH next_job AS (
        SELECT TOP (1)
               JobId, CompositionId, PayloadJson, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc,
               CompletedAtUtc, OutputUrl, RetryCount, LastErrorMessage, StartedAtUtc, DueAtUtc, EndedAtUtc, LeasedAtUtc,
               MaxRetries, LeaseToken, LeaseSeconds, DedupKey, Progress
          FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
         WHERE Status = 'Scheduled' AND DueAtUtc <= @now
         ORDER BY DueAtUtc
    )
    UPDATE next_job
       SET Status = 'Processing', WorkerNodeId = @worker, LeaseToken = @token, LeaseSeconds = @lease_s,
           LockedAtUtc = @at, LeasedAtUtc = @at, StartedAtUtc = @now, DueAtUtc = NULL, Progress = NULL
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
END;
