-- expect beside: no file of sql/sqlserver has this name
-- nosuch: a statement that SQL Server does not have.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000';
-- statement
SELECT 1 FROM [dbo].[VideoRenderJobs] WHERE JobId = @id;
