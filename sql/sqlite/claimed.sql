-- claimed: the jobs of a claim whose reply was lost, by its token.
.parameter init
.parameter set :token "x'00112233445546778899AABBCCDDEEFF'"
-- statement
SELECT JobId, LeaseToken, Status, CompositionId, PayloadJson, OutputUrl, DedupKey, WorkerNodeId,
       LastErrorMessage, Progress, Priority, RetryCount, ifnull(MaxRetries, 3), CreatedAtUtc, LockedAtUtc,
       StartedAtUtc, DueAtUtc, CompletedAtUtc, EndedAtUtc,
       CASE WHEN Status = 'Processing'
            THEN LockedAtUtc + 1000 * CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END
                 - CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) END
  FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Token"
 WHERE LeaseToken = :token AND Status = 'Processing' AND LeasedAtUtc = LockedAtUtc;
