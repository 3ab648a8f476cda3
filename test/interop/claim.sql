-- claim: the next job, in one atomic statement. The CTE lists every column that is set or put out.
DECLARE @workerNodeId nvarchar(100) = N'csharp-1';
-- statement
WITH NextJob AS (
    SELECT TOP (1) JobId, CompositionId, PayloadJson, RetryCount, Status, WorkerNodeId, LockedAtUtc
    FROM dbo.VideoRenderJobs WITH (UPDLOCK, READPAST, ROWLOCK)
    WHERE Status = 'Queued'
    ORDER BY Priority DESC, CreatedAtUtc ASC
)
UPDATE NextJob
SET Status = 'Processing', WorkerNodeId = @workerNodeId, LockedAtUtc = SYSUTCDATETIME()
OUTPUT inserted.JobId, inserted.CompositionId, inserted.PayloadJson, inserted.RetryCount;
