-- returned: whether a fail or a release whose reply was lost took effect; they differ in the count they leave.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :retry_count 1
-- statement
SELECT 1 FROM "VideoRenderJobs"
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc IS NULL AND LockedAtUtc IS NULL
   AND Status IN ('Queued', 'Scheduled', 'DeadLetter') AND ifnull(RetryCount, 0) = :retry_count;
