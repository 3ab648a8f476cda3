-- expect literal: a name of the table in a literal
-- reap: with the table's name in another form.
DECLARE @batch int = 1000;
-- statement
SELECT @batch, OBJECT_ID(N'dbo.VideoRenderJobs');
