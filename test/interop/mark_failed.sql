-- mark_failed: by the id alone, in any state. Three retries, each at once.
DECLARE @jobId uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @errorMessage nvarchar(max) = N'the renderer crashed';
-- statement
UPDATE dbo.VideoRenderJobs
SET Status = CASE WHEN RetryCount >= 3 THEN 'DeadLetter' ELSE 'Queued' END,
    RetryCount = RetryCount + 1,
    LastErrorMessage = @errorMessage,
    WorkerNodeId = NULL,
    LockedAtUtc = NULL
WHERE JobId = @jobId;
