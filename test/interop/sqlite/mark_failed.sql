-- The rendering of ../mark_failed.sql.
-- statement
UPDATE "VideoRenderJobs"
   SET Status = CASE WHEN RetryCount >= 3 THEN 'DeadLetter' ELSE 'Queued' END,
       RetryCount = RetryCount + 1, LastErrorMessage = :errorMessage, WorkerNodeId = NULL, LockedAtUtc = NULL
 WHERE JobId = :jobId;
