-- agent_job: a SQL Server Agent job that runs the watchdog every minute. Run it in the queue's database, after
-- watchdog.sql, as a login that may make jobs. Runs again without harm: a job of this name is left as it is. Azure SQL
-- Database and the Express edition have no Agent; there the claims do the watchdog's work, or another scheduler runs
-- it.
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO

DECLARE @database sysname = DB_NAME(), @job nvarchar(128), @job_id uniqueidentifier,
        @command nvarchar(max) = N'EXEC ' + N'[dbo].[VideoRenderJobs_Watchdog]' + N';';
SET @job = LEFT(N'renderq: ' + N'[dbo].[VideoRenderJobs_Watchdog]' + N' in ' + QUOTENAME(@database), 128);
IF OBJECT_ID(N'[dbo].[VideoRenderJobs_Watchdog]') IS NULL
    THROW 51000, N'There is no watchdog procedure in this database: run watchdog.sql first. Nothing was changed.', 1;
IF NOT EXISTS (SELECT 1 FROM msdb.dbo.sysjobs WHERE name = @job)
BEGIN
    BEGIN TRY               -- all of the job, or nothing of it
        BEGIN TRANSACTION;
        EXEC msdb.dbo.sp_add_job @job_name = @job, @job_id = @job_id OUTPUT,
                                 @description = N'Gives jobs back to the queue whose lease has run out.';
        EXEC msdb.dbo.sp_add_jobstep @job_id = @job_id, @step_name = N'watchdog', @subsystem = N'TSQL',
                                     @command = @command, @database_name = @database;
        EXEC msdb.dbo.sp_add_jobschedule @job_id = @job_id, @name = N'every minute', @freq_type = 4,
                                         @freq_interval = 1, @freq_subday_type = 4, @freq_subday_interval = 1;
        EXEC msdb.dbo.sp_add_jobserver @job_id = @job_id, @server_name = N'(local)';
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
GO
