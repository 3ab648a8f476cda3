-- expect unable: OUTPUT of what the statement does not set
-- renew_many: begins leases anew from now.
-- The items are taken apart as in complete_many.
-- Of items that name one lease twice the first decides, and all are answered alike.
DECLARE @items nvarchar(max) = N'[{"i":0,"id":"5F1D2C3B-4A59-4687-9A0B-019AD0000000",'
        + N'"token":"0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918",'
        + N'"progress":null}]';
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();
DECLARE @at datetime2(7) = CAST(DATEADD(NANOSECOND, 499999900, @now) AS datetime2(0));     -- rounded up
DECLARE @jobs TABLE (
    i int NOT NULL PRIMARY KEY, JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL,
    Progress nvarchar(201), nth int NOT NULL);
INSERT INTO @jobs (i, JobId, LeaseToken, Progress, nth)
SELECT i, JobId, LeaseToken, Progress, ROW_NUMBER() OVER (PARTITION BY JobId, LeaseToken ORDER BY i)
  FROM (SELECT CAST(jsonb_object_field_text(item, 'i') AS int) AS i,
               CAST(jsonb_object_field_text(item, 'id') AS uniqueidentifier) AS JobId,
               CAST(jsonb_object_field_text(item, 'token') AS uniqueidentifier) AS LeaseToken,
               CAST(jsonb_object_field_text(item, 'progress') AS nvarchar(201)) AS Progress
          FROM jsonb_array_elements(CAST(@items AS jsonb)) AS e (item)) AS x;

DECLARE @done TABLE (JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL, LeaseSeconds int,
                     StartedAtUtc datetime2(7), LockedAtUtc datetime2(7));

UPDATE j
   SET LockedAtUtc = @at, LeasedAtUtc = @at,
       Progress = COALESCE((SELECT y.Progress FROM @jobs AS y
                             WHERE y.JobId = j.JobId AND y.LeaseToken = j.LeaseToken AND y.nth = 1)
                           COLLATE Latin1_General_100_BIN2, j.Progress)
OUTPUT inserted.JobId, inserted.LeaseToken, inserted.LeaseSeconds, inserted.StartedAtUtc, inserted.LockedAtUtc
  INTO @done (JobId, LeaseToken, LeaseSeconds, StartedAtUtc, LockedAtUtc)
  FROM [dbo].[VideoRenderJobs] AS j
  JOIN @jobs AS x ON x.JobId = j.JobId AND x.LeaseToken = j.LeaseToken AND x.nth = 1
 WHERE j.LeasedAtUtc = j.LockedAtUtc AND j.Status = 'Processing';

SELECT x.i, d.LeaseSeconds, DATEDIFF_BIG(MILLISECOND, '1970-01-01', d.StartedAtUtc),
       DATEDIFF_BIG(MILLISECOND, '1970-01-01', d.LockedAtUtc)
  FROM @jobs AS x
  JOIN @done AS d ON d.JobId = x.JobId AND d.LeaseToken = x.LeaseToken;
