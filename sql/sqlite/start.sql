-- start: marks a job that was claimed ahead as started, and begins its lease anew; with :taker and :fresh it also
-- hands it to another worker under a new token.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :lease_s NULL
.parameter set :taker NULL
.parameter set :fresh NULL
-- statement
UPDATE "VideoRenderJobs"
   SET StartedAtUtc = ifnull(StartedAtUtc, CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
       LockedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeasedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeaseSeconds = ifnull(:lease_s, LeaseSeconds),
       WorkerNodeId = ifnull(:taker, WorkerNodeId), LeaseToken = ifnull(:fresh, LeaseToken)
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';

SELECT LeaseSeconds, StartedAtUtc, LockedAtUtc FROM "VideoRenderJobs" WHERE changes() > 0 AND JobId = :id;
