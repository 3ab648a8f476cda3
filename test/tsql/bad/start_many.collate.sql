-- expect collate: (SELECT y.taker FROM @jobs AS y WHERE y.JobId = j.JobId) and j.WorkerNodeId
-- start_many: text of one column beside text of another.
DECLARE @items nvarchar(max) = N'[]';
-- statement
DECLARE @jobs TABLE (JobId uniqueidentifier NOT NULL, taker nvarchar(129));
UPDATE j
   SET WorkerNodeId = COALESCE((SELECT y.taker FROM @jobs AS y WHERE y.JobId = j.JobId), j.WorkerNodeId)
  FROM [dbo].[VideoRenderJobs] AS j
  JOIN @jobs AS x ON x.JobId = j.JobId
 WHERE j.Status = 'Processing';
