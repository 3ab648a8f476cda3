-- watchdog: a procedure that ends leases which have run out, as reap does, until none is left. @lease_seconds is how
-- long a claim lasts of a program that writes no lease. Its one row is how many jobs went back to the queue, at once or
-- after a delay, and how many are dead letters now.
-- Any number may run at once, from any place: each batch is a short transaction under a lock that it does not wait for
-- (PostgreSQL's, as in reap), and whoever does not get it leaves the work to its holder.
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO

IF OBJECT_ID(N'[dbo].[VideoRenderJobs_Watchdog]') IS NULL
BEGIN
    DECLARE @sql nvarchar(max) = N'CREATE PROCEDURE ' + N'[dbo].[VideoRenderJobs_Watchdog]' + N' AS RETURN 0';
    EXEC (@sql);
END;
GO

ALTER PROCEDURE [dbo].[VideoRenderJobs_Watchdog]
    @lease_seconds int = 600,
    @batch int = 1000
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @outer int = @@TRANCOUNT, @got int = 1, @now datetime2(7), @returned int = 0, @dead int = 0, @seen int;
    DECLARE @room int = (SELECT CASE WHEN max_length = -1 THEN 2147483647
                                     WHEN TYPE_NAME(system_type_id) = N'nvarchar' THEN max_length / 2
                                     ELSE max_length / 3 END
                           FROM sys.columns
                          WHERE object_id = OBJECT_ID(N'[dbo].[VideoRenderJobs]') AND name = N'LastErrorMessage');
    DECLARE @done TABLE (JobId uniqueidentifier NOT NULL, Status varchar(20) NOT NULL);
    IF @batch IS NULL OR @batch < 1 OR @batch > 1000
        SET @batch = 1000;
    IF @lease_seconds IS NULL OR @lease_seconds < 1
        SET @lease_seconds = 600;

    SET @seen = @batch;
    WHILE @seen = @batch
    BEGIN
        SET @seen = 0;
        IF @outer = 0
        BEGIN
            BEGIN TRANSACTION;
            SET @got = COALESCE(CAST(pg_try_advisory_xact_lock(1919250020, OBJECT_ID(N'[dbo].[VideoRenderJobs]'))
                                     AS int), 1);
        END;
        SET @now = SYSUTCDATETIME();
        IF @got = 1
        BEGIN
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
                                                        ELSE @lease_seconds END, @now);
            SET @seen = @@ROWCOUNT;
        END;
        IF @outer = 0
            COMMIT TRANSACTION;
    END;
    SELECT @returned = COUNT(*) FROM @done WHERE Status <> 'DeadLetter';
    SELECT @dead = COUNT(*) FROM @done WHERE Status = 'DeadLetter';
    SELECT @returned AS Returned, @dead AS Dead;
END;
GO
