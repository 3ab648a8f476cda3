-- stats: jobs by state, the age of the oldest queued one, leases run out, and what was completed lately.
-- statement
WITH clock(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
     known(scheduled, queued, processing, completed, dead_letter, cancelled) AS (
    SELECT (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Scheduled'),
           (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Queued'),
           (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Processing'),
           (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Completed'),
           (SELECT count(*) FROM "VideoRenderJobs"
             WHERE Status IN ('DeadLetter', 'Cancelled') AND Status = 'DeadLetter'),
           (SELECT count(*) FROM "VideoRenderJobs"
             WHERE Status IN ('DeadLetter', 'Cancelled') AND Status = 'Cancelled'))
SELECT scheduled, queued, processing, completed, dead_letter, cancelled,
       (SELECT count(*) FROM "VideoRenderJobs")
       - scheduled - queued - processing - completed - dead_letter - cancelled,
       ifnull((SELECT now - min(CreatedAtUtc) FROM "VideoRenderJobs" WHERE Status = 'Queued'), 0),
       (SELECT count(*) FROM "VideoRenderJobs"
         WHERE Status = 'Processing'
           AND LockedAtUtc <= now - 1000 * CASE WHEN LeasedAtUtc = LockedAtUtc THEN LeaseSeconds ELSE 600 END),
       (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Completed' AND CompletedAtUtc > now - 60000),
       (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Completed' AND CompletedAtUtc > now - 300000),
       (SELECT count(*) FROM "VideoRenderJobs" WHERE Status = 'Completed' AND CompletedAtUtc > now - 900000)
  FROM clock, known;
