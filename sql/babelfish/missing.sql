-- missing: asked behind an error that has no number of its own here: whether a column is missing that the statements
-- name (all of them, where there is no such table or this login may not see it), whether a right is, and how many
-- milliseconds a lock is waited for.
-- statement
SELECT CASE WHEN (SELECT COUNT(*)
                    FROM sys.columns
                   WHERE object_id = OBJECT_ID(N'[dbo].[VideoRenderJobs]')
                     AND name IN (N'JobId', N'CompositionId', N'PayloadJson', N'Priority', N'Status', N'WorkerNodeId',
                                  N'LockedAtUtc', N'CreatedAtUtc', N'CompletedAtUtc', N'OutputUrl', N'RetryCount',
                                  N'LastErrorMessage', N'StartedAtUtc', N'DueAtUtc', N'EndedAtUtc', N'LeasedAtUtc',
                                  N'MaxRetries', N'LeaseToken', N'LeaseSeconds', N'DedupKey', N'Progress')) = 21
            THEN 0 ELSE 1 END,
       CASE WHEN HAS_PERMS_BY_NAME(N'[dbo].[VideoRenderJobs]', N'OBJECT', N'SELECT') = 1
                 AND HAS_PERMS_BY_NAME(N'[dbo].[VideoRenderJobs]', N'OBJECT', N'INSERT') = 1
                 AND HAS_PERMS_BY_NAME(N'[dbo].[VideoRenderJobs]', N'OBJECT', N'UPDATE') = 1
                 AND HAS_PERMS_BY_NAME(N'[dbo].[VideoRenderJobs]', N'OBJECT', N'DELETE') = 1
            THEN 0 ELSE 1 END,
       @@LOCK_TIMEOUT;
