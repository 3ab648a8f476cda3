-- complete: by the id alone, in any state.
DECLARE @jobId uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @outputUrl nvarchar(1000) = N'https://cdn.example.com/intro-001.mp4';
-- statement
UPDATE dbo.VideoRenderJobs
SET Status = 'Completed', OutputUrl = @outputUrl, CompletedAtUtc = SYSUTCDATETIME()
WHERE JobId = @jobId;
