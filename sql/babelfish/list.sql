-- list: a page of jobs behind an id, without their payloads.
-- Ids sort from left to right here. SQL Server's order, which the library counts on, is that of `place`: the last six
-- bytes, the two before them, and each group in front of these from its end. So a page reads the whole table.
DECLARE @after uniqueidentifier = NULL, @state nvarchar(21) = NULL, @composition_id nvarchar(201) = NULL,
        @worker nvarchar(129) = NULL, @page int = 100;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME(), @text char(36) = CONVERT(char(36), @after), @place varchar(32);
SET @place = SUBSTRING(@text, 25, 12) + SUBSTRING(@text, 20, 4) + SUBSTRING(@text, 17, 2) + SUBSTRING(@text, 15, 2)
             + SUBSTRING(@text, 12, 2) + SUBSTRING(@text, 10, 2) + SUBSTRING(@text, 7, 2) + SUBSTRING(@text, 5, 2)
             + SUBSTRING(@text, 3, 2) + SUBSTRING(@text, 1, 2);

SELECT TOP (@page)
       CONVERT(char(36), id), CONVERT(char(36), LeaseToken), CAST(Status AS nvarchar(20)),
       CAST(CompositionId AS nvarchar(max)), CAST(NULL AS nvarchar(max)),
       CAST(OutputUrl AS nvarchar(max)), DedupKey, CAST(WorkerNodeId AS nvarchar(max)),
       CAST(LastErrorMessage AS nvarchar(max)), Progress,
       CAST(ISNULL(Priority, 0) AS int), CAST(ISNULL(RetryCount, 0) AS int), ISNULL(MaxRetries, 3),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', CreatedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', LockedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', StartedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', DueAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', CompletedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', EndedAtUtc),
       CASE WHEN Status = 'Processing'
            THEN DATEDIFF_BIG(MILLISECOND, @now,
                              DATEADD(SECOND, CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END,
                                      LockedAtUtc)) END
  FROM (SELECT id, LeaseToken, Status, CompositionId, OutputUrl, DedupKey, WorkerNodeId, LastErrorMessage, Progress,
               Priority, RetryCount, MaxRetries, CreatedAtUtc, LockedAtUtc, StartedAtUtc, DueAtUtc, CompletedAtUtc,
               EndedAtUtc, LeasedAtUtc, LeaseSeconds,
               SUBSTRING(id, 25, 12) + SUBSTRING(id, 20, 4) + SUBSTRING(id, 17, 2) + SUBSTRING(id, 15, 2)
               + SUBSTRING(id, 12, 2) + SUBSTRING(id, 10, 2) + SUBSTRING(id, 7, 2) + SUBSTRING(id, 5, 2)
               + SUBSTRING(id, 3, 2) + SUBSTRING(id, 1, 2) AS place
          FROM (SELECT CONVERT(char(36), JobId) AS id, LeaseToken, Status, CompositionId, OutputUrl, DedupKey,
                       WorkerNodeId, LastErrorMessage, Progress, Priority, RetryCount, MaxRetries, CreatedAtUtc,
                       LockedAtUtc, StartedAtUtc, DueAtUtc, CompletedAtUtc, EndedAtUtc, LeasedAtUtc, LeaseSeconds
                  FROM [dbo].[VideoRenderJobs]) AS named) AS placed
 WHERE (@place IS NULL OR place COLLATE Latin1_General_100_BIN2 > @place)
   AND (@state IS NULL OR Status = CAST(@state AS varchar(20))
        OR (@state = N'Other' AND Status NOT IN ('Scheduled', 'Queued', 'Processing', 'Completed', 'DeadLetter',
                                                 'Cancelled')))
   AND (@composition_id IS NULL OR CompositionId = @composition_id)
   AND (@worker IS NULL OR WorkerNodeId = @worker)
 ORDER BY place COLLATE Latin1_General_100_BIN2;
