-- age: for the tests alone, which do not wait for ten minutes: makes a claim that much older.
DECLARE @jobId uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000', @seconds int = 601;
-- statement
UPDATE dbo.VideoRenderJobs
SET LockedAtUtc = DATEADD(SECOND, -@seconds, LockedAtUtc)
WHERE JobId = @jobId;
