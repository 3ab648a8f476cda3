-- enqueue: the id is left to the column's default.
DECLARE @compositionId nvarchar(200) = N'intro-001', @payloadJson nvarchar(max) = N'{"title": "Hello"}',
        @priority int = 0;
-- statement
INSERT INTO dbo.VideoRenderJobs (CompositionId, PayloadJson, Priority, Status)
OUTPUT inserted.JobId
VALUES (@compositionId, @payloadJson, @priority, 'Queued');
