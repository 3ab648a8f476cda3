-- schema: the queue's table, its indexes, and a view of it for people. Runs again without harm.
-- Times are milliseconds of UTC since 1970. GUIDs are 16 bytes in the order that SQL Server sorts them by; the
-- view shows them as text. A column that comes later may not be NOT NULL: older tables get it by ALTER TABLE.
-- statement
CREATE TABLE IF NOT EXISTS "VideoRenderJobs" (
    JobId BLOB NOT NULL PRIMARY KEY DEFAULT (randomblob(16))
          CHECK (typeof(JobId) = 'blob' AND length(JobId) = 16),
    CompositionId TEXT NOT NULL,
    Priority INTEGER NOT NULL DEFAULT 0,
    Status TEXT NOT NULL DEFAULT 'Queued',
    WorkerNodeId TEXT,
    LockedAtUtc INTEGER,
    CreatedAtUtc INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
    CompletedAtUtc INTEGER,
    OutputUrl TEXT,
    RetryCount INTEGER NOT NULL DEFAULT 0,
    LastErrorMessage TEXT,
    StartedAtUtc INTEGER,
    DueAtUtc INTEGER,
    EndedAtUtc INTEGER,
    LeasedAtUtc INTEGER,
    MaxRetries INTEGER,
    LeaseToken BLOB,
    LeaseSeconds INTEGER,
    DedupKey TEXT,
    Progress TEXT,
    PayloadJson TEXT NOT NULL       -- last: what stands behind a long text is slow to reach
);

CREATE INDEX IF NOT EXISTS "VideoRenderJobs_Queued" ON "VideoRenderJobs" (Priority DESC, CreatedAtUtc, JobId)
 WHERE Status = 'Queued';
CREATE INDEX IF NOT EXISTS "VideoRenderJobs_Scheduled" ON "VideoRenderJobs" (DueAtUtc)
 WHERE Status = 'Scheduled';
CREATE INDEX IF NOT EXISTS "VideoRenderJobs_Leased" ON "VideoRenderJobs" (LockedAtUtc, LeaseSeconds, LeasedAtUtc)
 WHERE Status = 'Processing';
CREATE INDEX IF NOT EXISTS "VideoRenderJobs_Token" ON "VideoRenderJobs" (LeaseToken)
 WHERE Status = 'Processing';
CREATE INDEX IF NOT EXISTS "VideoRenderJobs_Completed" ON "VideoRenderJobs" (CompletedAtUtc)
 WHERE Status = 'Completed';
CREATE INDEX IF NOT EXISTS "VideoRenderJobs_Ended" ON "VideoRenderJobs" (EndedAtUtc, Status)
 WHERE Status IN ('DeadLetter', 'Cancelled');
CREATE UNIQUE INDEX IF NOT EXISTS "VideoRenderJobs_DedupKey" ON "VideoRenderJobs" (DedupKey)
 WHERE DedupKey IS NOT NULL AND Status IN ('Scheduled', 'Queued', 'Processing');

CREATE VIEW IF NOT EXISTS "VideoRenderJobs_View" AS
SELECT substr(h, 31, 2) || substr(h, 29, 2) || substr(h, 27, 2) || substr(h, 25, 2) || '-'
       || substr(h, 23, 2) || substr(h, 21, 2) || '-' || substr(h, 19, 2) || substr(h, 17, 2) || '-'
       || substr(h, 13, 4) || '-' || substr(h, 1, 12) AS JobId,
       CompositionId, Status, Priority, RetryCount, WorkerNodeId, Progress, OutputUrl, DedupKey, LastErrorMessage,
       strftime('%Y-%m-%d %H:%M:%f', CreatedAtUtc / 1000.0, 'unixepoch') AS CreatedAtUtc,
       strftime('%Y-%m-%d %H:%M:%f', DueAtUtc / 1000.0, 'unixepoch') AS DueAtUtc,
       strftime('%Y-%m-%d %H:%M:%f', LockedAtUtc / 1000.0, 'unixepoch') AS LockedAtUtc,
       strftime('%Y-%m-%d %H:%M:%f', StartedAtUtc / 1000.0, 'unixepoch') AS StartedAtUtc,
       strftime('%Y-%m-%d %H:%M:%f', ifnull(CompletedAtUtc, EndedAtUtc) / 1000.0, 'unixepoch') AS EndedAtUtc,
       PayloadJson
  FROM (SELECT hex(JobId) AS h, * FROM "VideoRenderJobs");
