-- table: the queue's table, as the programs create it that work on it through Dapper.
-- statement
CREATE TABLE dbo.VideoRenderJobs (
    JobId uniqueidentifier NOT NULL DEFAULT NEWSEQUENTIALID() PRIMARY KEY,
    CompositionId nvarchar(200) NOT NULL,
    PayloadJson nvarchar(max) NOT NULL,
    Priority int NOT NULL DEFAULT 0,
    Status varchar(20) NOT NULL DEFAULT 'Queued',
    WorkerNodeId nvarchar(100) NULL,
    LockedAtUtc datetime2 NULL,
    CreatedAtUtc datetime2 NOT NULL DEFAULT SYSUTCDATETIME(),
    CompletedAtUtc datetime2 NULL,
    OutputUrl nvarchar(1000) NULL,
    RetryCount int NOT NULL DEFAULT 0,
    LastErrorMessage nvarchar(max) NULL
);
CREATE INDEX IX_Status_Priority ON dbo.VideoRenderJobs (Status, Priority DESC, CreatedAtUtc);
