-- The rendering of ../drop.sql; the view is the library's.
-- statement
DROP VIEW IF EXISTS "VideoRenderJobs_View";
DROP TABLE "VideoRenderJobs";
