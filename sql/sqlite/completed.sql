-- completed: whether a complete whose reply was lost took effect.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
-- statement
SELECT 1 FROM "VideoRenderJobs"
 WHERE JobId = :id AND LeaseToken = :token AND Status = 'Completed' AND LeasedAtUtc IS NULL;
