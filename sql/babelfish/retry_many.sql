-- retry_many: queues ended jobs again, their failures forgotten, each unless a live one holds its dedup key; of several
-- with one key the first.
-- 0 and its id; 1 and the holder's id; or 2: its Status forbids it.
DECLARE @items nvarchar(max) = N'[{"i":0,"id":"5F1D2C3B-4A59-4687-9A0B-019AD0000000","dead_only":1}]';
-- statement
DECLARE @abort int = @@OPTIONS & 16384;
SET XACT_ABORT OFF;
DECLARE @outer int = @@TRANCOUNT, @tries int = 0;
DECLARE @jobs TABLE (
    i int NOT NULL PRIMARY KEY, JobId uniqueidentifier NOT NULL, dead_only bit NOT NULL, state int,
    holder uniqueidentifier, was nvarchar(20), DedupKey nvarchar(200) COLLATE Latin1_General_100_BIN2,
    UNIQUE (DedupKey, i));
DECLARE @done TABLE (JobId uniqueidentifier NOT NULL);
INSERT INTO @jobs (i, JobId, dead_only)
SELECT i, JobId, dead_only
  FROM OPENJSON(@items)
  WITH (i int '$.i', JobId uniqueidentifier '$.id', dead_only bit '$.dead_only');

IF @outer = 0
    BEGIN TRANSACTION;
ELSE
    SAVE TRANSACTION retry_many;
WHILE EXISTS (SELECT 1 FROM @jobs WHERE state IS NULL)
BEGIN
    SET @tries = @tries + 1;
    BEGIN TRY
        IF @tries = 6
            THROW 51001, N'the jobs change faster than they can be read', 1;

        UPDATE x
           SET was = CAST(j.Status AS nvarchar(20)), DedupKey = j.DedupKey, holder = j.JobId,
               state = CASE WHEN j.Status = 'DeadLetter' OR (x.dead_only = 0 AND j.Status IN ('Cancelled', 'Completed'))
                            THEN NULL ELSE 2 END
          FROM @jobs AS x
          JOIN [dbo].[VideoRenderJobs] AS j ON j.JobId = x.JobId
         WHERE x.state IS NULL;
        DELETE FROM @jobs WHERE was IS NULL;        -- no such job: no answer

        UPDATE j
           SET Status = 'Queued', RetryCount = 0, DueAtUtc = NULL, CompletedAtUtc = NULL, EndedAtUtc = NULL,
               LeaseToken = NULL,
               WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
        OUTPUT inserted.JobId INTO @done (JobId)
          FROM [dbo].[VideoRenderJobs] AS j
          JOIN @jobs AS x ON x.JobId = j.JobId
         WHERE x.state IS NULL
           AND (j.Status = 'DeadLetter' OR (x.dead_only = 0 AND j.Status IN ('Cancelled', 'Completed')))
           AND NOT EXISTS (SELECT 1 FROM [dbo].[VideoRenderJobs] AS h
                            WHERE h.DedupKey = x.DedupKey AND h.Status IN ('Scheduled', 'Queued', 'Processing'))
           AND NOT EXISTS (SELECT 1 FROM @jobs AS y
                            WHERE y.DedupKey = x.DedupKey AND y.i < x.i AND y.state IS NULL);

        UPDATE x
           SET state = 0, was = N'Queued'
          FROM @jobs AS x
          JOIN @done AS d ON d.JobId = x.JobId
         WHERE x.state IS NULL;

        UPDATE x
           SET state = 1, holder = h.JobId
          FROM @jobs AS x
          JOIN [dbo].[VideoRenderJobs] AS h
            ON h.DedupKey = x.DedupKey AND h.Status IN ('Scheduled', 'Queued', 'Processing') AND h.JobId <> x.JobId
         WHERE x.state IS NULL;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 2627 OR @tries = 5 OR XACT_STATE() <> 1
        BEGIN
            IF @outer = 0
                ROLLBACK TRANSACTION;
            ELSE IF XACT_STATE() = 1
                ROLLBACK TRANSACTION retry_many;
            IF @abort <> 0
                SET XACT_ABORT ON;
            THROW;
        END;
    END CATCH;
END;
IF @outer = 0
    COMMIT TRANSACTION;
IF @abort <> 0
    SET XACT_ABORT ON;
SELECT i, state, CONVERT(char(36), holder), was FROM @jobs;
