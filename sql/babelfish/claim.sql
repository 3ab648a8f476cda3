-- claim: leases the next queued jobs to one worker, after queueing what has become due.
-- Nothing locked is read past here: of two claims that find one job the second waits, and the last test of the UPDATE
-- keeps it from taking the job once more. It has nothing then, though more may be queued, so it looks again. What it
-- took is read afterwards, by a time that the index of the leases begins with.
DECLARE @worker nvarchar(129) = N'node-1', @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @lease_s int = 600, @unstarted int = 0, @batch int = 1;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME(), @found int = 0, @tries int = 0;
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up

UPDATE TOP (100) [dbo].[VideoRenderJobs]
   SET Status = 'Queued', DueAtUtc = NULL
 WHERE Status = 'Scheduled' AND DueAtUtc <= @now;

WHILE @found = 0 AND @tries < 100
BEGIN
    SET @tries = @tries + 1;
    UPDATE [dbo].[VideoRenderJobs]
       SET Status = 'Processing', WorkerNodeId = @worker, LeaseToken = @token, LeaseSeconds = @lease_s,
           LockedAtUtc = @at, LeasedAtUtc = @at, Progress = NULL,
           StartedAtUtc = CASE WHEN @unstarted = 0
                                 OR (@unstarted = 2 AND ISNULL(RetryCount, 0) = 0 AND ISNULL(MaxRetries, 3) > 0)
                               THEN @now END
     WHERE JobId IN (SELECT TOP (@batch) JobId
                       FROM [dbo].[VideoRenderJobs]
                      WHERE Status = 'Queued'
                      ORDER BY Priority DESC, CreatedAtUtc ASC, JobId ASC)
       AND Status = 'Queued';
    SET @found = @@ROWCOUNT;
    IF @found = 0 AND NOT EXISTS (SELECT 1 FROM [dbo].[VideoRenderJobs] WHERE Status = 'Queued')
        SET @tries = 100;
END;

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
       CAST(NULL AS bigint)
  FROM [dbo].[VideoRenderJobs]
 WHERE Status = 'Processing' AND LockedAtUtc = @at AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc;
