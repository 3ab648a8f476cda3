-- renew: begins the lease anew from now.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :progress NULL
-- statement
WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
     lease(at) AS (SELECT (now + 999) / 1000 * 1000 FROM clock)
UPDATE "VideoRenderJobs"
   SET LockedAtUtc = (SELECT at FROM lease), LeasedAtUtc = (SELECT at FROM lease),
       Progress = ifnull(:progress, Progress)
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';

SELECT LeaseSeconds, StartedAtUtc, LockedAtUtc FROM "VideoRenderJobs" WHERE changes() > 0 AND JobId = :id;
