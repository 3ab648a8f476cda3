-- expect forbidden: NEWSEQUENTIALID outside a DEFAULT
-- enqueue: with an id that only a DEFAULT can make.
DECLARE @payload nvarchar(max) = N'x';
-- statement
INSERT INTO [dbo].[VideoRenderJobs] (JobId, PayloadJson) VALUES (NEWSEQUENTIALID(), @payload);
