-- fail: the attempt failed: the job waits, or is dead when its retries are used up. The token stays for a repeat.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :error "'out of disk'"
.parameter set :never 0
.parameter set :delay_ms 2000
-- statement
WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
UPDATE "VideoRenderJobs"
   SET Status = CASE WHEN :never = 1 OR ifnull(RetryCount, 0) >= ifnull(MaxRetries, 3) THEN 'DeadLetter'
                     WHEN :delay_ms > 0 THEN 'Scheduled'
                     ELSE 'Queued' END,
       DueAtUtc = CASE WHEN :never = 1 OR ifnull(RetryCount, 0) >= ifnull(MaxRetries, 3) THEN NULL
                       WHEN :delay_ms > 0 THEN (SELECT now FROM clock) + :delay_ms END,
       EndedAtUtc = CASE WHEN :never = 1 OR ifnull(RetryCount, 0) >= ifnull(MaxRetries, 3)
                         THEN (SELECT now FROM clock) END,
       RetryCount = ifnull(RetryCount, 0) + 1, LastErrorMessage = :error,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';

SELECT 1 WHERE changes() > 0;
