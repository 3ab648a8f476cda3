-- job: one job, for a page that shows it.
DECLARE @jobId uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000';
-- statement
SELECT JobId, CompositionId, PayloadJson, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc, CompletedAtUtc,
       OutputUrl, RetryCount, LastErrorMessage
FROM dbo.VideoRenderJobs
WHERE JobId = @jobId;
