-- enqueue: adds a job, unless a live one holds its dedup key.
-- 0 and the new id; 1 and the holder's id; or 2: a row has this id already.
-- A refused row is told by its error, so XACT_ABORT is off here: a caller's transaction outlives it. Off it would stay
-- behind this batch, so it is set again. When the holder has ended by the time it is looked for, the key is free:
-- again.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @composition_id nvarchar(201) = N'intro', @payload nvarchar(max) = N'{}',
        @output_url nvarchar(2049) = NULL, @dedup_key nvarchar(201) = NULL, @priority int = 0, @max_retries int = NULL,
        @delay_ms bigint = 0;
-- statement
DECLARE @abort int = @@OPTIONS & 16384;
SET XACT_ABORT OFF;
DECLARE @state int, @holder uniqueidentifier, @tries int = 0, @now datetime2(7);
WHILE @state IS NULL
BEGIN
    SET @now = SYSUTCDATETIME();
    SET @tries = @tries + 1;
    BEGIN TRY
        INSERT INTO [dbo].[VideoRenderJobs] (JobId, CompositionId, PayloadJson, OutputUrl, DedupKey, Priority,
                                             MaxRetries, RetryCount, CreatedAtUtc, Status, DueAtUtc)
        VALUES (@id, @composition_id, @payload, @output_url, @dedup_key, @priority, @max_retries, 0, @now,
                CASE WHEN @delay_ms > 0 THEN 'Scheduled' ELSE 'Queued' END,
                CASE WHEN @delay_ms > 0
                     THEN DATEADD(MILLISECOND, CAST(@delay_ms % 86400000 AS int),
                                  DATEADD(DAY, CAST(@delay_ms / 86400000 AS int), @now)) END);
        SELECT @state = 0, @holder = @id;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 2627 OR @tries = 5
        BEGIN
            IF @abort <> 0
                SET XACT_ABORT ON;
            THROW;
        END;
        SELECT @state = 2, @holder = JobId FROM [dbo].[VideoRenderJobs] WHERE JobId = @id;
        IF @state IS NULL
            SELECT @state = 1, @holder = JobId
              FROM [dbo].[VideoRenderJobs]
             WHERE DedupKey = @dedup_key AND Status IN ('Scheduled', 'Queued', 'Processing');
    END CATCH;
END;
IF @abort <> 0
    SET XACT_ABORT ON;
SELECT @state, CONVERT(char(36), @holder);
