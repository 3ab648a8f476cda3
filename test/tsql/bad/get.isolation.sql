-- expect isolation: this reads without hints
-- get: with a hint.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000';
-- statement
SELECT JobId FROM [dbo].[VideoRenderJobs] WITH (READCOMMITTEDLOCK) WHERE JobId = @id;
