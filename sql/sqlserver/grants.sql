-- grants: two roles, and the least that each needs. A worker claims, settles and purges jobs, and may enqueue; a
-- producer adds jobs and reads them. Neither may change the table itself. Runs again without harm; run it after
-- watchdog.sql.
-- Then, for each user:  ALTER ROLE [VideoRenderJobs_Worker] ADD MEMBER [the user];
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO

IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE QUOTENAME(name) = N'[VideoRenderJobs_Worker]')
    CREATE ROLE [VideoRenderJobs_Worker];
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE QUOTENAME(name) = N'[VideoRenderJobs_Producer]')
    CREATE ROLE [VideoRenderJobs_Producer];
GO

GRANT SELECT, INSERT, UPDATE, DELETE ON [dbo].[VideoRenderJobs] TO [VideoRenderJobs_Worker];
GRANT EXECUTE ON [dbo].[VideoRenderJobs_Watchdog] TO [VideoRenderJobs_Worker];
GRANT SELECT, INSERT ON [dbo].[VideoRenderJobs] TO [VideoRenderJobs_Producer];
GO
