-- counts: how many jobs are in each state.
-- statement
SELECT Status, COUNT(*) AS Jobs
FROM dbo.VideoRenderJobs
GROUP BY Status;
