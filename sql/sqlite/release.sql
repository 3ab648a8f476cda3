-- release: gives the job back, uncounted. The token stays for a repeat.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
.parameter set :delay_ms 0
-- statement
UPDATE "VideoRenderJobs"
   SET Status = CASE WHEN :delay_ms > 0 THEN 'Scheduled' ELSE 'Queued' END,
       DueAtUtc = CASE WHEN :delay_ms > 0
                       THEN CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) + :delay_ms END,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = :id AND LeaseToken = :token AND LeasedAtUtc = LockedAtUtc AND Status = 'Processing';

SELECT 1 WHERE changes() > 0;
