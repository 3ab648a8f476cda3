-- drop: for the tests alone, at their end.
-- statement
DROP TABLE dbo.VideoRenderJobs;
