-- settle: an operator's complete, without a lease. It can spare a job whose lease was renewed and has not run out.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :output_url NULL
.parameter set :spare_renewed 0
-- statement
WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
UPDATE "VideoRenderJobs"
   SET Status = 'Completed', CompletedAtUtc = (SELECT now FROM clock), OutputUrl = ifnull(:output_url, OutputUrl),
       DueAtUtc = NULL, EndedAtUtc = NULL, LeaseToken = NULL,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = :id AND Status <> 'Completed'
   AND (:spare_renewed = 0 OR Status <> 'Processing' OR LeasedAtUtc IS NULL OR LeasedAtUtc <> LockedAtUtc
        OR StartedAtUtc IS NULL OR LockedAtUtc <= StartedAtUtc + 1000
        OR LockedAtUtc + LeaseSeconds * 1000 <= (SELECT now FROM clock));

SELECT changes() > 0, Status FROM "VideoRenderJobs" WHERE JobId = :id;
