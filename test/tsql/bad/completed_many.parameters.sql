-- expect parameters: an item is
-- completed_many: which jobs of a batch whose reply was lost are completed under their tokens.
DECLARE @items nvarchar(max) = N'[{"i":0,"id":"5F1D2C3B-4A59-4687-9A0B-019AD0000000",'
        + N'"token":"0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918"}]';
-- statement
DECLARE @jobs TABLE (
    i int NOT NULL PRIMARY KEY, JobId uniqueidentifier NOT NULL, LeaseToken uniqueidentifier NOT NULL);
INSERT INTO @jobs (i, JobId, LeaseToken)
SELECT i, JobId, LeaseToken
  FROM OPENJSON(@items)
  WITH (i int '$.i', JobId uniqueidentifier '$.id', LeaseToken uniqueidentifier '$.lease');

SELECT x.i, 1
  FROM @jobs AS x
  JOIN [dbo].[VideoRenderJobs] AS j WITH (READCOMMITTEDLOCK) ON j.JobId = x.JobId AND j.LeaseToken = x.LeaseToken
 WHERE j.Status = 'Completed' AND j.LeasedAtUtc IS NULL;
