-- The rendering of ../table.sql.
-- statement
CREATE TABLE "VideoRenderJobs" (
    JobId BLOB NOT NULL PRIMARY KEY DEFAULT (randomblob(16)),
    CompositionId TEXT NOT NULL,
    PayloadJson TEXT NOT NULL,
    Priority INTEGER NOT NULL DEFAULT 0,
    Status TEXT NOT NULL DEFAULT 'Queued',
    WorkerNodeId TEXT,
    LockedAtUtc INTEGER,
    CreatedAtUtc INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
    CompletedAtUtc INTEGER,
    OutputUrl TEXT,
    RetryCount INTEGER NOT NULL DEFAULT 0,
    LastErrorMessage TEXT
);
CREATE INDEX "VideoRenderJobs_Status_Priority" ON "VideoRenderJobs" (Status, Priority DESC, CreatedAtUtc);
