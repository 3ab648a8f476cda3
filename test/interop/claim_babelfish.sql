-- claim_babelfish: the claim where a CTE cannot be updated. Of two that meet at one row the second gets nothing,
-- thanks to the last test, even if more is queued. But if the row was queued again while it waited, what OUTPUT gives
-- is the old row, or garbage.
DECLARE @workerNodeId nvarchar(100) = N'csharp-1';
-- statement
UPDATE dbo.VideoRenderJobs
SET Status = 'Processing', WorkerNodeId = @workerNodeId, LockedAtUtc = SYSUTCDATETIME()
OUTPUT inserted.JobId, inserted.CompositionId, inserted.PayloadJson, inserted.RetryCount
WHERE JobId IN (
    SELECT TOP (1) JobId
    FROM dbo.VideoRenderJobs
    WHERE Status = 'Queued'
    ORDER BY Priority DESC, CreatedAtUtc ASC
) AND Status = 'Queued';
