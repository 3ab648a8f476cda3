-- complete: the job is done. The token stays, so that a repeat can tell its own success.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :output_url NULL
-- statement
UPDATE "VideoRenderJobs"
   SET Status = 'Completed', CompletedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER),
       OutputUrl = ifnull(:output_url, OutputUrl), LeasedAtUtc = NULL
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';

SELECT 1 WHERE changes() > 0;
