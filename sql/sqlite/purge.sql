-- purge: deletes a batch of jobs that ended long enough ago. An end that a foreign client left without a time is
-- stamped now, and deleted by that later. The first read takes no write lock: when it finds nothing, the rest is
-- not run.
.parameter init
.parameter set :age_s 86400
.parameter set :batch 1000
-- statement
WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
SELECT 1
 WHERE EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status = 'Completed' AND CompletedAtUtc IS NULL)
    OR EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status = 'Completed' AND CompletedAtUtc < (SELECT now FROM clock) - :age_s * 1000)
    OR EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status IN ('DeadLetter', 'Cancelled') AND EndedAtUtc IS NULL)
    OR EXISTS (SELECT 1 FROM "VideoRenderJobs"
                WHERE Status IN ('DeadLetter', 'Cancelled')
                  AND EndedAtUtc < (SELECT now FROM clock) - :age_s * 1000);

UPDATE "VideoRenderJobs"
   SET CompletedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
 WHERE rowid IN (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Completed"
                  WHERE Status = 'Completed' AND CompletedAtUtc IS NULL LIMIT :batch);

UPDATE "VideoRenderJobs"
   SET EndedAtUtc = CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
 WHERE rowid IN (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Ended"
                  WHERE Status IN ('DeadLetter', 'Cancelled') AND EndedAtUtc IS NULL LIMIT :batch);

WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
DELETE FROM "VideoRenderJobs"
 WHERE rowid IN (SELECT rowid
                   FROM (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Completed"
                          WHERE Status = 'Completed'
                            AND CompletedAtUtc < (SELECT now FROM clock) - :age_s * 1000
                          ORDER BY CompletedAtUtc LIMIT :batch)
                 UNION ALL
                 SELECT rowid
                   FROM (SELECT rowid FROM "VideoRenderJobs" INDEXED BY "VideoRenderJobs_Ended"
                          WHERE Status IN ('DeadLetter', 'Cancelled')
                            AND EndedAtUtc < (SELECT now FROM clock) - :age_s * 1000
                          ORDER BY EndedAtUtc LIMIT :batch));

SELECT changes();
