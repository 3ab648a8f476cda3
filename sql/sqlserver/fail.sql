-- fail: the attempt failed: the job waits, or is dead when its retries are used up. The token stays for a repeat.
-- A message that is too long for its column is shortened here, with a mark and between two characters: a failure must
-- be recordable. The collation makes lengths count UTF-16 units. A varchar may need three bytes for one of those.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @error nvarchar(max) = N'out of disk', @never bit = 0, @delay_ms bigint = 2000;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @room int = (SELECT CASE WHEN max_length = -1 THEN 2147483647
                                 WHEN TYPE_NAME(system_type_id) = N'nvarchar' THEN max_length / 2
                                 ELSE max_length / 3 END
                       FROM sys.columns
                      WHERE object_id = OBJECT_ID(N'[dbo].[VideoRenderJobs]') AND name = N'LastErrorMessage');
IF LEN((@error + N'.') COLLATE Latin1_General_100_BIN2) - 1 > @room     -- LEN alone leaves blanks at the end out
BEGIN
    SET @room = @room - 1;
    IF UNICODE(SUBSTRING(@error COLLATE Latin1_General_100_BIN2, @room, 1)) BETWEEN 55296 AND 56319
        SET @room = @room - 1;
    SET @error = LEFT(@error COLLATE Latin1_General_100_BIN2, @room) + NCHAR(8230);
END;

UPDATE [dbo].[VideoRenderJobs]
   SET Status = CASE WHEN @never = 1 OR ISNULL(RetryCount, 0) >= ISNULL(MaxRetries, 3) THEN 'DeadLetter'
                     WHEN @delay_ms > 0 THEN 'Scheduled'
                     ELSE 'Queued' END,
       DueAtUtc = CASE WHEN @never = 1 OR ISNULL(RetryCount, 0) >= ISNULL(MaxRetries, 3) THEN NULL
                       WHEN @delay_ms > 0
                       THEN DATEADD(MILLISECOND, CAST(@delay_ms % 86400000 AS int),
                                    DATEADD(DAY, CAST(@delay_ms / 86400000 AS int), @now)) END,
       EndedAtUtc = CASE WHEN @never = 1 OR ISNULL(RetryCount, 0) >= ISNULL(MaxRetries, 3) THEN @now END,
       RetryCount = ISNULL(RetryCount, 0) + 1, LastErrorMessage = @error,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';
IF @@ROWCOUNT > 0
    SELECT 1;
