-- reap: ends leases that have run out. A started job counts a failure and waits 2^failures seconds, at most an
-- hour, plus up to a quarter, or is dead; an unstarted one is queued again, uncounted. A foreign lease counts, and
-- lasts 600 s.
-- One at a time: whoever finds another at it has nothing to do. The lock is PostgreSQL's: when sp_getapplock fails to
-- get one several times in a session, all of the server goes down. The UPDATE itself tests the lease, or it would
-- overwrite what was completed meanwhile. In a caller's transaction the lock would stay for all its length.
DECLARE @batch int = 1000;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @room int = (SELECT CASE WHEN max_length = -1 THEN 2147483647
                                 WHEN TYPE_NAME(system_type_id) = N'nvarchar' THEN max_length / 2
                                 ELSE max_length / 3 END
                       FROM sys.columns
                      WHERE object_id = OBJECT_ID(N'[dbo].[VideoRenderJobs]') AND name = N'LastErrorMessage');
DECLARE @outer int = @@TRANCOUNT, @got int = 1;
DECLARE @done TABLE (JobId uniqueidentifier NOT NULL, Status varchar(20) NOT NULL);

IF @outer = 0
BEGIN
    BEGIN TRANSACTION;
    SET @got = COALESCE(CAST(pg_try_advisory_xact_lock(1919250020, OBJECT_ID(N'[dbo].[VideoRenderJobs]')) AS int), 1);
END;
IF @got = 1
    UPDATE TOP (@batch) [dbo].[VideoRenderJobs]
       SET Status = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN 'Queued'
                         WHEN ISNULL(RetryCount, 0) >= ISNULL(MaxRetries, 3) THEN 'DeadLetter'
                         ELSE 'Scheduled' END,
           DueAtUtc = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN NULL
                           WHEN ISNULL(RetryCount, 0) >= ISNULL(MaxRetries, 3) THEN NULL
                           ELSE DATEADD(MILLISECOND,
                                        CASE WHEN ISNULL(RetryCount, 0) >= 11 THEN 3600
                                             ELSE POWER(2, ISNULL(RetryCount, 0) + 1) END
                                        * (1000 + (CHECKSUM(NEWID()) & 2147483647) % 251), @now) END,
           EndedAtUtc = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN NULL
                             WHEN ISNULL(RetryCount, 0) >= ISNULL(MaxRetries, 3) THEN @now END,
           RetryCount = ISNULL(RetryCount, 0)
                        + CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN 0 ELSE 1 END,
           LastErrorMessage = CASE WHEN LeasedAtUtc = LockedAtUtc AND StartedAtUtc IS NULL THEN LastErrorMessage
                                   ELSE LEFT((N'the lease of ' + COALESCE(WorkerNodeId, N'a worker')
                                              + N' ran out') COLLATE Latin1_General_100_BIN2, @room) END,
           LeaseToken = NULL,
           WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
    OUTPUT inserted.JobId, inserted.Status INTO @done (JobId, Status)
     WHERE Status = 'Processing' AND LockedAtUtc <= DATEADD(SECOND, -1, @now)
       AND LockedAtUtc <= DATEADD(SECOND, -CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds
                                                ELSE 600 END, @now);
IF @outer = 0
    COMMIT TRANSACTION;
SELECT CONVERT(char(36), JobId), CAST(Status AS nvarchar(20)) FROM @done;
