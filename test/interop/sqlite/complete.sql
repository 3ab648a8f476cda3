-- The rendering of ../complete.sql.
-- statement
UPDATE "VideoRenderJobs"
   SET Status = 'Completed', OutputUrl = :outputUrl,
       CompletedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
 WHERE JobId = :jobId;
