-- output: the output URL of a job that this transaction has completed.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :output_url NULL
-- statement
UPDATE "VideoRenderJobs"
   SET OutputUrl = ifnull(:output_url, OutputUrl)
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc IS NULL AND Status = 'Completed';

SELECT 1 WHERE changes() > 0;
