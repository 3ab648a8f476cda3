-- retry: queues an ended job again, its failures forgotten, unless a live one holds its dedup key.
-- 0 and its id; 1 and the holder's id; or 2: its Status forbids it.
.parameter init
.parameter set :id "x'019AD0000000800000000000000000AB'"
.parameter set :dead_only 0
-- statement
UPDATE "VideoRenderJobs" AS job
   SET Status = 'Queued', RetryCount = 0, DueAtUtc = NULL, CompletedAtUtc = NULL, EndedAtUtc = NULL,
       LeaseToken = NULL,
       WorkerNodeId = NULL, LockedAtUtc = NULL, StartedAtUtc = NULL, LeasedAtUtc = NULL, LeaseSeconds = NULL
 WHERE JobId = :id
   AND (Status = 'DeadLetter' OR (:dead_only = 0 AND Status IN ('Cancelled', 'Completed')))
   AND NOT EXISTS (SELECT 1 FROM "VideoRenderJobs" AS holder INDEXED BY "VideoRenderJobs_DedupKey"
                    WHERE holder.DedupKey = job.DedupKey AND holder.Status IN ('Scheduled', 'Queued', 'Processing'));

SELECT 0, JobId, Status FROM "VideoRenderJobs" WHERE changes() > 0 AND JobId = :id;

SELECT 1, holder.JobId, job.Status
  FROM "VideoRenderJobs" AS job
  JOIN "VideoRenderJobs" AS holder INDEXED BY "VideoRenderJobs_DedupKey" ON holder.DedupKey = job.DedupKey
 WHERE changes() = 0 AND job.JobId = :id AND holder.JobId <> :id
   AND (job.Status = 'DeadLetter' OR (:dead_only = 0 AND job.Status IN ('Cancelled', 'Completed')))
   AND holder.Status IN ('Scheduled', 'Queued', 'Processing')
UNION ALL
SELECT 2, JobId, Status FROM "VideoRenderJobs"
 WHERE changes() = 0 AND JobId = :id
   AND NOT (Status = 'DeadLetter' OR (:dead_only = 0 AND Status IN ('Cancelled', 'Completed')));
