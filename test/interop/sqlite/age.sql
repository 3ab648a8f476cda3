-- The rendering of ../age.sql.
-- statement
UPDATE "VideoRenderJobs" SET LockedAtUtc = LockedAtUtc - 1000 * :seconds WHERE JobId = :jobId;
