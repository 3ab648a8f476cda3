-- enqueue_many: adds jobs, all or none, each unless a live one holds its dedup key.
-- 0 and the new id; 1 and the holder's id; or 2: a row has this id already.
-- A microsecond between two CreatedAtUtc keeps the items in their order: ids sort otherwise here. The items are taken
-- apart by PostgreSQL's functions, since OPENJSON leaves the escapes in a text as they are.
DECLARE @items nvarchar(max) = N'[{"i":0,"id":"5F1D2C3B-4A59-4687-9A0B-019AD0000000","composition_id":"intro",'
        + N'"payload":"{}","output_url":null,"dedup_key":"order-7","priority":0,"max_retries":null,"delay_ms":0}]';
-- statement
DECLARE @abort int = @@OPTIONS & 16384;
SET XACT_ABORT OFF;
DECLARE @outer int = @@TRANCOUNT, @now datetime2(7) = SYSUTCDATETIME(), @from int = 0, @tries int = 0;
DECLARE @jobs TABLE (
    i int NOT NULL PRIMARY KEY, JobId uniqueidentifier NOT NULL, CompositionId nvarchar(201), PayloadJson nvarchar(max),
    OutputUrl nvarchar(2049), DedupKey nvarchar(201) COLLATE Latin1_General_100_BIN2, Priority int, MaxRetries int,
    DelayMs bigint, state int, holder uniqueidentifier,
    UNIQUE (DedupKey, i));
INSERT INTO @jobs (i, JobId, CompositionId, PayloadJson, OutputUrl, DedupKey, Priority, MaxRetries, DelayMs)
SELECT CAST(jsonb_object_field_text(item, 'i') AS int),
       CAST(jsonb_object_field_text(item, 'id') AS uniqueidentifier),
       CAST(jsonb_object_field_text(item, 'composition_id') AS nvarchar(201)),
       CAST(jsonb_object_field_text(item, 'payload') AS nvarchar(max)),
       CAST(jsonb_object_field_text(item, 'output_url') AS nvarchar(2049)),
       CAST(jsonb_object_field_text(item, 'dedup_key') AS nvarchar(201)),
       CAST(jsonb_object_field_text(item, 'priority') AS int),
       CAST(jsonb_object_field_text(item, 'max_retries') AS int),
       CAST(jsonb_object_field_text(item, 'delay_ms') AS bigint)
  FROM jsonb_array_elements(CAST(@items AS jsonb)) AS e (item);

IF @outer = 0
    BEGIN TRANSACTION;
ELSE
    SAVE TRANSACTION enqueue_many;
WHILE EXISTS (SELECT 1 FROM @jobs WHERE state IS NULL)
BEGIN
    SET @tries = @tries + 1;
    BEGIN TRY
        IF @tries = 6
            THROW 51001, N'the jobs change faster than they can be read', 1;

        UPDATE x
           SET state = 2, holder = x.JobId
          FROM @jobs AS x
         WHERE x.i >= @from AND x.i < @from + 1000 AND x.state IS NULL
           AND EXISTS (SELECT 1 FROM [dbo].[VideoRenderJobs] AS j WHERE j.JobId = x.JobId);

        INSERT INTO [dbo].[VideoRenderJobs] (JobId, CompositionId, PayloadJson, OutputUrl, DedupKey, Priority,
                                             MaxRetries, RetryCount, CreatedAtUtc, Status, DueAtUtc)
        SELECT x.JobId, x.CompositionId, x.PayloadJson, x.OutputUrl, x.DedupKey, x.Priority, x.MaxRetries, 0,
               DATEADD(MICROSECOND, x.i, @now),
               CASE WHEN x.DelayMs > 0 THEN 'Scheduled' ELSE 'Queued' END,
               CASE WHEN x.DelayMs > 0
                    THEN DATEADD(MILLISECOND, CAST(x.DelayMs % 86400000 AS int),
                                 DATEADD(DAY, CAST(x.DelayMs / 86400000 AS int), @now)) END
          FROM @jobs AS x
         WHERE x.i >= @from AND x.i < @from + 1000 AND x.state IS NULL
           AND NOT EXISTS (SELECT 1 FROM [dbo].[VideoRenderJobs] AS j
                            WHERE j.DedupKey = x.DedupKey AND j.Status IN ('Scheduled', 'Queued', 'Processing'))
           AND NOT EXISTS (SELECT 1 FROM @jobs AS y
                            WHERE y.DedupKey = x.DedupKey AND y.i >= @from AND y.i < x.i AND y.state IS NULL);

        UPDATE x
           SET state = 0, holder = x.JobId
          FROM @jobs AS x
         WHERE x.i >= @from AND x.i < @from + 1000 AND x.state IS NULL
           AND EXISTS (SELECT 1 FROM [dbo].[VideoRenderJobs] AS j WHERE j.JobId = x.JobId);

        UPDATE x
           SET state = 1, holder = j.JobId
          FROM @jobs AS x
          JOIN [dbo].[VideoRenderJobs] AS j
            ON j.DedupKey = x.DedupKey AND j.Status IN ('Scheduled', 'Queued', 'Processing')
         WHERE x.i >= @from AND x.i < @from + 1000 AND x.state IS NULL;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 2627 OR @tries = 5 OR XACT_STATE() <> 1
        BEGIN
            IF @outer = 0
                ROLLBACK TRANSACTION;
            ELSE IF XACT_STATE() = 1
                ROLLBACK TRANSACTION enqueue_many;
            IF @abort <> 0
                SET XACT_ABORT ON;
            THROW;
        END;
    END CATCH;
    IF NOT EXISTS (SELECT 1 FROM @jobs WHERE i < @from + 1000 AND state IS NULL)
        SELECT @from = @from + 1000, @tries = 0;
END;
IF @outer = 0
    COMMIT TRANSACTION;
IF @abort <> 0
    SET XACT_ABORT ON;
SELECT i, state, CONVERT(char(36), holder) FROM @jobs;
