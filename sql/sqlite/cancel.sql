-- cancel: ends a job that has not ended; its worker's lease is void.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
-- statement
UPDATE "VideoRenderJobs"
   SET Status = 'Cancelled', EndedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER),
       DueAtUtc = NULL, LeaseToken = NULL,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = :id AND Status IN ('Scheduled', 'Queued', 'Processing');

SELECT changes() > 0, Status FROM "VideoRenderJobs" WHERE JobId = :id;
