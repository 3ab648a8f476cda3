-- The rendering of ../enqueue.sql.
-- statement
INSERT INTO "VideoRenderJobs" (CompositionId, PayloadJson, Priority, Status)
VALUES (:compositionId, :payloadJson, :priority, 'Queued')
RETURNING JobId;
