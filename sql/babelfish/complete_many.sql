-- complete_many: the jobs are done. Their tokens stay, so that a repeat can tell its own success.
-- PostgreSQL's functions take the items apart: OPENJSON leaves the escapes in a text as they are.
-- Of items that name one lease twice the first is done, and the others come too late.
DECLARE @items nvarchar(max) = N'[{"i":0,"id":"5F1D2C3B-4A59-4687-9A0B-019AD0000000",'
        + N'"token":"0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918",'
        + N'"output_url":null}]';
-- statement
DECLARE @jobs TABLE (
    i int NOT NULL PRIMARY KEY, JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL,
    OutputUrl nvarchar(2049), nth int NOT NULL);
INSERT INTO @jobs (i, JobId, LeaseToken, OutputUrl, nth)
SELECT i, JobId, LeaseToken, OutputUrl, ROW_NUMBER() OVER (PARTITION BY JobId, LeaseToken ORDER BY i)
  FROM (SELECT CAST(jsonb_object_field_text(item, 'i') AS int) AS i,
               CAST(jsonb_object_field_text(item, 'id') AS uniqueidentifier) AS JobId,
               CAST(jsonb_object_field_text(item, 'token') AS uniqueidentifier) AS LeaseToken,
               CAST(jsonb_object_field_text(item, 'output_url') AS nvarchar(2049)) AS OutputUrl
          FROM jsonb_array_elements(CAST(@items AS jsonb)) AS e (item)) AS x;

DECLARE @done TABLE (JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL);

UPDATE j
   SET Status = 'Completed', CompletedAtUtc = SYSUTCDATETIME(), LeasedAtUtc = NULL,
       OutputUrl = COALESCE((SELECT y.OutputUrl FROM @jobs AS y
                              WHERE y.JobId = j.JobId AND y.LeaseToken = j.LeaseToken AND y.nth = 1)
                            COLLATE Latin1_General_100_BIN2, j.OutputUrl)
OUTPUT inserted.JobId, inserted.LeaseToken INTO @done (JobId, LeaseToken)
  FROM [dbo].[VideoRenderJobs] AS j
  JOIN @jobs AS x ON x.JobId = j.JobId AND x.LeaseToken = j.LeaseToken AND x.nth = 1
 WHERE j.LeasedAtUtc = j.LockedAtUtc AND j.Status = 'Processing';

SELECT x.i, 1
  FROM @jobs AS x
  JOIN @done AS d ON d.JobId = x.JobId AND d.LeaseToken = x.LeaseToken
 WHERE x.nth = 1;
