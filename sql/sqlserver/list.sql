-- list: a page of jobs behind an id, without their payloads. It waits for nobody, so it may see what is rolled back.
DECLARE @after uniqueidentifier = NULL, @state nvarchar(21) = NULL, @composition_id nvarchar(201) = NULL,
        @worker nvarchar(129) = NULL, @page int = 100;
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();

SELECT TOP (@page)
       CONVERT(char(36), JobId), CONVERT(char(36), LeaseToken), CAST(Status AS nvarchar(20)),
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
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 WHERE (@after IS NULL OR JobId > @after)
   AND (@state IS NULL OR Status = CAST(@state AS varchar(20))
        OR (@state = N'Other' AND Status NOT IN ('Scheduled', 'Queued', 'Processing', 'Completed', 'DeadLetter',
                                                 'Cancelled')))
   AND (@composition_id IS NULL OR CompositionId = @composition_id)
   AND (@worker IS NULL OR WorkerNodeId = @worker)
 ORDER BY JobId
OPTION (RECOMPILE);
