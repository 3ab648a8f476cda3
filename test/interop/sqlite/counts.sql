-- The rendering of ../counts.sql.
-- statement
SELECT Status, COUNT(*) FROM "VideoRenderJobs" GROUP BY Status;
