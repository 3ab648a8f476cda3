-- expect isnull: a function in ORDER BY
-- list: in an order that no index has.
DECLARE @page int = 100;
-- statement
SELECT TOP (@page) JobId
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 ORDER BY ISNULL(Priority, 0) DESC, JobId;
