-- expect claim: OPTION is (MAXDOP 1), not
-- claim: many jobs, planned for a hundred.
DECLARE @batch int = 1;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
UPDATE TOP (100) [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
   SET Status = 'Queued', DueAtUtc = NULL
 WHERE Status = 'Scheduled' AND DueAtUtc <= @now;
IF @batch = 1
BEGIN
    WITH next_job AS (
        SELECT TOP (1) JobId, Status
          FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
         WHERE Status = 'Queued'
         ORDER BY Priority DESC, CreatedAtUtc ASC, JobId ASC
    )
    UPDATE next_job
       SET Status = 'Processing'
    OUTPUT inserted.JobId
    OPTION (MAXDOP 1);
END
ELSE
BEGIN
    WITH next_job AS (
        SELECT TOP (@batch) JobId, Status
          FROM [dbo].[VideoRenderJobs] WITH (UPDLOCK, READPAST, ROWLOCK)
         WHERE Status = 'Queued'
         ORDER BY Priority DESC, CreatedAtUtc ASC, JobId ASC
    )
    UPDATE next_job
       SET Status = 'Processing'
    OUTPUT inserted.JobId
    OPTION (MAXDOP 1);
END;
