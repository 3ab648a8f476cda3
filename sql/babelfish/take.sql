-- take: leases the next job to one worker in the caller's own transaction, which is going to complete it: a queued one,
-- and if there is none, one that is due. As in claim: what another took first is asked for again, and what was taken is
-- read afterwards.
DECLARE @worker nvarchar(129) = N'node-1', @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @lease_s int = 600;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME(), @found int = 0, @tries int = 0;
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up

WHILE @found = 0 AND @tries < 100
BEGIN
    SET @tries = @tries + 1;
    UPDATE [dbo].[VideoRenderJobs]
       SET Status = 'Processing', WorkerNodeId = @worker, LeaseToken = @token, LeaseSeconds = @lease_s,
           LockedAtUtc = @at, LeasedAtUtc = @at, StartedAtUtc = @now, DueAtUtc = NULL, Progress = NULL
     WHERE JobId IN (SELECT TOP (1) JobId
                       FROM [dbo].[VideoRenderJobs]
                      WHERE Status = 'Queued'
                      ORDER BY Priority DESC, CreatedAtUtc ASC, JobId ASC)
       AND Status = 'Queued';
    SET @found = @@ROWCOUNT;
    IF @found = 0
    BEGIN
        UPDATE [dbo].[VideoRenderJobs]
           SET Status = 'Processing', WorkerNodeId = @worker, LeaseToken = @token, LeaseSeconds = @lease_s,
               LockedAtUtc = @at, LeasedAtUtc = @at, StartedAtUtc = @now, DueAtUtc = NULL, Progress = NULL
         WHERE JobId IN (SELECT TOP (1) JobId
                           FROM [dbo].[VideoRenderJobs]
                          WHERE Status = 'Scheduled' AND DueAtUtc <= @now
                          ORDER BY DueAtUtc)
           AND Status = 'Scheduled';
        SET @found = @@ROWCOUNT;
    END;
    IF @found = 0 AND NOT EXISTS (SELECT 1 FROM [dbo].[VideoRenderJobs]
                                   WHERE Status = 'Queued' OR (Status = 'Scheduled' AND DueAtUtc <= @now))
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
