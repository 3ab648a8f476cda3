-- purge: deletes a batch of jobs that ended long enough ago. An end that a foreign client left without a time is
-- stamped now, and deleted by that later.
DECLARE @age_s bigint = 86400, @batch int = 1000;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();

DECLARE @before datetime2(7) = DATEADD(SECOND, -CAST(@age_s AS int), @now), @deleted bigint;

UPDATE TOP (@batch) [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
   SET CompletedAtUtc = @now
 WHERE Status = 'Completed' AND CompletedAtUtc IS NULL;

UPDATE TOP (@batch) [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
   SET EndedAtUtc = @now
 WHERE Status IN ('DeadLetter', 'Cancelled') AND EndedAtUtc IS NULL;

DELETE TOP (@batch) FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
 WHERE Status = 'Completed' AND CompletedAtUtc < @before;
SET @deleted = @@ROWCOUNT;

DELETE TOP (@batch) FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
 WHERE Status IN ('DeadLetter', 'Cancelled') AND EndedAtUtc < @before;
SET @deleted = @deleted + @@ROWCOUNT;
SELECT @deleted;
