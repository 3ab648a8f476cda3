-- enqueue: adds a job, unless a live one holds its dedup key.
-- 0 and the new id; 1 and the holder's id; or 2: a row has this id already. What else the table forbids is an error.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :composition_id "'intro'"
.parameter set :payload "'{}'"
.parameter set :output_url NULL
.parameter set :dedup_key NULL
.parameter set :priority 0
.parameter set :max_retries NULL
.parameter set :delay_ms 0
-- statement
INSERT INTO "VideoRenderJobs" (JobId, CompositionId, PayloadJson, OutputUrl, DedupKey, Priority, MaxRetries,
                               RetryCount, CreatedAtUtc, Status, DueAtUtc)
VALUES (:id, :composition_id, :payload, :output_url, :dedup_key, :priority, :max_retries, 0,
        CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER),
        CASE WHEN :delay_ms > 0 THEN 'Scheduled' ELSE 'Queued' END,
        CASE WHEN :delay_ms > 0 THEN CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) + :delay_ms END)
    ON CONFLICT (JobId) DO NOTHING
    ON CONFLICT (DedupKey) WHERE DedupKey IS NOT NULL AND Status IN ('Scheduled', 'Queued', 'Processing') DO NOTHING;

SELECT 0, :id WHERE changes() > 0;

SELECT 2, JobId FROM "VideoRenderJobs" WHERE changes() = 0 AND JobId = :id
UNION ALL
SELECT 1, JobId FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_DedupKey"
 WHERE changes() = 0 AND DedupKey = :dedup_key AND JobId <> :id
   AND Status IN ('Scheduled', 'Queued', 'Processing')
 LIMIT 1;
