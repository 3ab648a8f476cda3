-- retry: queues an ended job again, its failures forgotten, unless a live one holds its dedup key.
-- 0 and its id; 1 and the holder's id; or 2: its Status forbids it.
-- XACT_ABORT is off for a while as in enqueue. What changes under the look-ups is asked again.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000', @dead_only bit = 0;
-- statement
DECLARE @abort int = @@OPTIONS & 16384;
SET XACT_ABORT OFF;
DECLARE @state int, @holder uniqueidentifier, @was nvarchar(20), @key nvarchar(200), @there int = 1, @tries int = 0;
WHILE @state IS NULL AND @there = 1
BEGIN
    SET @tries = @tries + 1;
    BEGIN TRY
        UPDATE [dbo].[VideoRenderJobs]
           SET Status = 'Queued', RetryCount = 0, DueAtUtc = NULL, CompletedAtUtc = NULL, EndedAtUtc = NULL,
               LeaseToken = NULL,
               WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
         WHERE JobId = @id
           AND (Status = 'DeadLetter' OR (@dead_only = 0 AND Status IN ('Cancelled', 'Completed')));
        IF @@ROWCOUNT > 0
            SELECT @state = 0, @holder = @id, @was = N'Queued';
        ELSE
        BEGIN
            SELECT @state = CASE WHEN (Status = 'DeadLetter'
                                      OR (@dead_only = 0 AND Status IN ('Cancelled', 'Completed'))) THEN NULL
                                 ELSE 2 END,
                   @holder = JobId, @was = CAST(Status AS nvarchar(20))
              FROM [dbo].[VideoRenderJobs]
             WHERE JobId = @id;
            SET @there = @@ROWCOUNT;
        END;
        IF @tries = 5 AND @state IS NULL AND @there = 1
            THROW 51001, N'the job changes faster than it can be read', 1;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 2627 OR @tries = 5
        BEGIN
            IF @abort <> 0
                SET XACT_ABORT ON;
            THROW;
        END;
        SELECT @key = DedupKey, @was = CAST(Status AS nvarchar(20))
          FROM [dbo].[VideoRenderJobs]
         WHERE JobId = @id;
        SELECT @state = 1, @holder = JobId
          FROM [dbo].[VideoRenderJobs]
         WHERE DedupKey = @key AND Status IN ('Scheduled', 'Queued', 'Processing') AND JobId <> @id;
    END CATCH;
END;
IF @abort <> 0
    SET XACT_ABORT ON;
IF @state IS NOT NULL
    SELECT @state, CONVERT(char(36), @holder), @was;
