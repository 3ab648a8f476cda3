-- started: whether a hand-out whose reply was lost took effect; :token is the fresh one.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
-- statement
SELECT LeaseSeconds, StartedAtUtc, LockedAtUtc FROM "VideoRenderJobs"
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';
