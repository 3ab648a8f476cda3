-- renew: begins the lease anew from now.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :progress NULL
-- statement
UPDATE "VideoRenderJobs"
   SET LockedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       LeasedAtUtc = strftime('%s', 'now', '+0.999 seconds') * 1000,
       Progress = ifnull(:progress, Progress)
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';

SELECT LeaseSeconds, StartedAtUtc, LockedAtUtc FROM "VideoRenderJobs" WHERE changes() > 0 AND JobId = :id;
