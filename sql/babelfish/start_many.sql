-- start_many: marks jobs that were claimed ahead as started, and begins their leases anew; with taker and fresh it also
-- hands them to another worker, each under a new token.
-- The items are taken apart as in complete_many. The rows are read afterwards, as OUTPUT may give them as they were
-- before another change that was waited for; who has lost the lease meanwhile is told so.
-- Of items that name one lease twice the first decides; the others are answered alike while the token is the same.
DECLARE @items nvarchar(max) = N'[{"i":0,"id":"5F1D2C3B-4A59-4687-9A0B-019AD0000000",'
        + N'"token":"0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918",'
        + N'"lease_s":null,"taker":"node-2","fresh":"7A8B9CAD-BECF-4D0E-9F1A-2B3C4D5E6F70"}]';
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up
DECLARE @jobs TABLE (
    i int NOT NULL PRIMARY KEY, JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL,
    LeaseSeconds int, taker nvarchar(129), fresh uniqueidentifier, nth int NOT NULL);
INSERT INTO @jobs (i, JobId, LeaseToken, LeaseSeconds, taker, fresh, nth)
SELECT i, JobId, LeaseToken, LeaseSeconds, taker, fresh, ROW_NUMBER() OVER (PARTITION BY JobId, LeaseToken ORDER BY i)
  FROM (SELECT CAST(jsonb_object_field_text(item, 'i') AS int) AS i,
               CAST(jsonb_object_field_text(item, 'id') AS uniqueidentifier) AS JobId,
               CAST(jsonb_object_field_text(item, 'token') AS uniqueidentifier) AS LeaseToken,
               CAST(jsonb_object_field_text(item, 'lease_s') AS int) AS LeaseSeconds,
               CAST(jsonb_object_field_text(item, 'taker') AS nvarchar(129)) AS taker,
               CAST(jsonb_object_field_text(item, 'fresh') AS uniqueidentifier) AS fresh
          FROM jsonb_array_elements(CAST(@items AS jsonb)) AS e (item)) AS x;

DECLARE @done TABLE (JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL);

UPDATE j
   SET StartedAtUtc = COALESCE(j.StartedAtUtc, @now), LockedAtUtc = @at, LeasedAtUtc = @at,
       LeaseSeconds = COALESCE((SELECT y.LeaseSeconds FROM @jobs AS y
                                 WHERE y.JobId = j.JobId AND y.LeaseToken = j.LeaseToken AND y.nth = 1),
                               j.LeaseSeconds),
       WorkerNodeId = COALESCE((SELECT y.taker FROM @jobs AS y
                                 WHERE y.JobId = j.JobId AND y.LeaseToken = j.LeaseToken AND y.nth = 1)
                               COLLATE Latin1_General_100_BIN2, j.WorkerNodeId),
       LeaseToken = COALESCE((SELECT y.fresh FROM @jobs AS y
                               WHERE y.JobId = j.JobId AND y.LeaseToken = j.LeaseToken AND y.nth = 1),
                             j.LeaseToken)
OUTPUT inserted.JobId, inserted.LeaseToken INTO @done (JobId, LeaseToken)
  FROM [dbo].[VideoRenderJobs] AS j
  JOIN @jobs AS x ON x.JobId = j.JobId AND x.LeaseToken = j.LeaseToken AND x.nth = 1
 WHERE j.LeasedAtUtc = j.LockedAtUtc AND j.Status = 'Processing';

SELECT x.i, j.LeaseSeconds, DATEDIFF_BIG(MILLISECOND, '1970-01-01', j.StartedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', j.LockedAtUtc)
  FROM @jobs AS x
  JOIN @done AS d ON d.JobId = x.JobId AND d.LeaseToken = COALESCE(x.fresh, x.LeaseToken)
  JOIN [dbo].[VideoRenderJobs] AS j ON j.JobId = d.JobId AND j.LeaseToken = d.LeaseToken
 WHERE j.LeasedAtUtc = j.LockedAtUtc AND j.Status = 'Processing';
