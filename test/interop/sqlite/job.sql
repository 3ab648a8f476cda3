-- The rendering of ../job.sql.
-- statement
SELECT JobId, CompositionId, PayloadJson, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc, CompletedAtUtc,
       OutputUrl, RetryCount, LastErrorMessage
  FROM "VideoRenderJobs"
 WHERE JobId = :jobId;
