-- expect unable: a CTE cannot be changed there
-- retry: the change of a CTE.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000', @dead_only bit = 0;
-- statement
WITH dead AS (SELECT JobId, RetryCount FROM [dbo].[VideoRenderJobs] WHERE JobId = @id AND @dead_only = 1)
UPDATE dead SET RetryCount = 0;
IF @@ROWCOUNT > 0
    SELECT 0, CONVERT(char(36), @id), N'Queued';
