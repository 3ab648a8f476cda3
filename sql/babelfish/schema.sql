-- schema: the queue's table and its indexes. Runs again without harm. On a table that other programs made for the
-- same jobs it adds what is missing and changes nothing else, or stops with the reason, as error 51000 and before any
-- change.
-- By hand: sqlcmd -b, so that it ends where it stops.
--
-- Beside sql/sqlserver/schema.sql: no trigger and no module is looked for, since neither is in a queue's way here.
--
-- For another table replace, here and in the other scripts, in this order:
--   [dbo].[VideoRenderJobs]    by its quoted name, [schema].[table] with each ] doubled
--   [dbo].[VideoRenderJobs_    by [schema].[table_
--   [VideoRenderJobs_          by [table_ ; shorten the table's part where a whole name would pass 128 characters
-- Inside N'...' (there such a name is always the whole literal) also double each quote of the name.
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO

-- What is there must be able to become a queue. The batches behind this one look for #renderq_fits.
IF OBJECT_ID(N'tempdb..#renderq_fits') IS NOT NULL
    DROP TABLE #renderq_fits;
DECLARE @table int = OBJECT_ID(N'[dbo].[VideoRenderJobs]'), @name nvarchar(600) = N'[dbo].[VideoRenderJobs]',
        @why nvarchar(2000), @sql nvarchar(max), @bad int;
DECLARE @wanted TABLE (
    name nvarchar(128) NOT NULL PRIMARY KEY,
    types nvarchar(60) COLLATE Latin1_General_100_BIN2 NOT NULL, ours bit NOT NULL, needed bit NOT NULL,
    may_refuse_null bit NOT NULL);
-- "ours" are added where they are missing; what the other programs must have is "needed".
INSERT INTO @wanted (name, types, ours, needed, may_refuse_null)
VALUES (N'JobId', N',uniqueidentifier,', 0, 1, 1), (N'CompositionId', N',nvarchar,varchar,', 0, 1, 1),
       (N'PayloadJson', N',nvarchar,varchar,', 0, 1, 1), (N'Priority', N',int,smallint,tinyint,', 0, 1, 1),
       (N'Status', N',varchar,nvarchar,', 0, 1, 1), (N'WorkerNodeId', N',nvarchar,varchar,', 0, 0, 0),
       (N'LockedAtUtc', N',datetime2,datetime,datetimeoffset,', 0, 0, 0),
       (N'CreatedAtUtc', N',datetime2,datetime,datetimeoffset,', 0, 1, 1),
       (N'CompletedAtUtc', N',datetime2,datetime,datetimeoffset,', 0, 0, 0),
       (N'OutputUrl', N',nvarchar,varchar,', 0, 0, 0), (N'RetryCount', N',int,smallint,tinyint,', 0, 1, 1),
       (N'LastErrorMessage', N',nvarchar,varchar,', 0, 0, 0), (N'StartedAtUtc', N',datetime2,', 1, 0, 0),
       (N'DueAtUtc', N',datetime2,', 1, 0, 0), (N'EndedAtUtc', N',datetime2,', 1, 0, 0),
       (N'LeasedAtUtc', N',datetime2,', 1, 0, 0), (N'MaxRetries', N',int,', 1, 0, 0),
       (N'LeaseToken', N',uniqueidentifier,', 1, 0, 0), (N'LeaseSeconds', N',int,', 1, 0, 0),
       (N'DedupKey', N',nvarchar,', 1, 0, 0), (N'Progress', N',nvarchar,', 1, 0, 0);

IF @table IS NOT NULL
BEGIN
    DECLARE @columns TABLE (
        name nvarchar(128) NOT NULL PRIMARY KEY,
        type nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, max_length int NOT NULL, is_nullable bit NOT NULL,
        collation_name nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, is_given bit NOT NULL);
    INSERT INTO @columns (name, type, max_length, is_nullable, collation_name, is_given)
    SELECT name, COALESCE(TYPE_NAME(system_type_id), N'of another kind'), max_length, is_nullable, collation_name,
           CASE WHEN default_object_id <> 0 OR is_identity = 1 OR is_computed = 1
                     OR TYPE_NAME(system_type_id) = N'timestamp' THEN 1 ELSE 0 END
      FROM sys.columns
     WHERE object_id = @table;

    IF OBJECT_ID(N'[dbo].[VideoRenderJobs]', N'U') IS NULL
        SET @why = N'it is not a table';

    IF @why IS NULL
        SELECT TOP (1) @why = N'it has no column ' + w.name
          FROM @wanted AS w
         WHERE w.needed = 1 AND NOT EXISTS (SELECT 1 FROM @columns AS c WHERE c.name = w.name)
         ORDER BY w.name;

    IF @why IS NULL
        SELECT TOP (1) @why = N'its column ' + w.name + N' is ' + c.type + N', which must be one of '
                              + SUBSTRING(w.types, 2, LEN(w.types) - 2)
          FROM @wanted AS w
          JOIN @columns AS c ON c.name = w.name
         WHERE CHARINDEX(N',' + c.type + N',', w.types) = 0
         ORDER BY w.name;

    IF @why IS NULL
        SELECT @why = N'its column Status holds ' + CAST(max_length AS nvarchar(12)) + N' bytes, too few for DeadLetter'
          FROM @columns
         WHERE name = N'Status' AND max_length <> -1 AND max_length < CASE WHEN type = N'nvarchar' THEN 20 ELSE 10 END;

    IF @why IS NULL
        SELECT @why = N'its column DedupKey does not compare by bytes: its collation must be Latin1_General_100_BIN2'
          FROM @columns
         WHERE name = N'DedupKey'
           AND collation_name NOT IN (N'Latin1_General_100_BIN2', N'bbf_unicode_bin2');

    IF @why IS NULL
        SELECT TOP (1) @why = N'its column ' + c.name + N' is NOT NULL: a queue must be able to clear it'
          FROM @wanted AS w
          JOIN @columns AS c ON c.name = w.name
         WHERE w.may_refuse_null = 0 AND c.is_nullable = 0
         ORDER BY c.name;

    IF @why IS NULL
        SELECT TOP (1) @why = N'its column ' + c.name + N' is NOT NULL without a default, and a queue would not fill it'
          FROM @columns AS c
         WHERE c.is_nullable = 0 AND c.is_given = 0 AND NOT EXISTS (SELECT 1 FROM @wanted AS w WHERE w.name = c.name)
         ORDER BY c.name;

    IF @why IS NULL
       AND NOT EXISTS (SELECT 1
                         FROM sys.indexes AS x
                         JOIN sys.index_columns AS k ON k.object_id = x.object_id AND k.index_id = x.index_id
                        WHERE x.object_id = @table AND x.is_unique = 1 AND x.has_filter = 0
                          AND COL_NAME(k.object_id, k.column_id) = N'JobId' AND k.key_ordinal = 1
                          AND NOT EXISTS (SELECT 1 FROM sys.index_columns AS more
                                           WHERE more.object_id = x.object_id AND more.index_id = x.index_id
                                             AND more.key_ordinal > 1))
        SET @why = N'its JobId is no key: it needs PRIMARY KEY (JobId), or a unique index on it alone';

    -- Each CHECK is asked about our states, with every other column NULL. One that cannot be asked is left to the
    -- server.
    IF @why IS NULL
    BEGIN
        DECLARE @check nvarchar(128), @definition nvarchar(max), @others nvarchar(max) = N'', @other nvarchar(128);
        SELECT @other = MIN(name) FROM @columns WHERE name <> N'Status';
        WHILE @other IS NOT NULL
        BEGIN
            SET @others = @others + N', o.' + QUOTENAME(@other);
            SELECT @other = MIN(name) FROM @columns WHERE name <> N'Status' AND name > @other;
        END;
        DECLARE checks CURSOR LOCAL FORWARD_ONLY STATIC READ_ONLY FOR
            SELECT name, definition FROM sys.check_constraints WHERE parent_object_id = @table AND is_disabled = 0;
        OPEN checks;
        FETCH NEXT FROM checks INTO @check, @definition;
        WHILE @@FETCH_STATUS = 0
        BEGIN
            SET @bad = 0;
            SET @sql = N'SELECT @bad = COUNT(*) FROM (SELECT s.Status' + @others
                       + N' FROM (VALUES (''Scheduled''), (''Queued''), (''Processing''), (''Completed''),'
                       + N' (''DeadLetter''), (''Cancelled'')) AS s (Status) LEFT JOIN '
                       + N'[dbo].[VideoRenderJobs]' + N' AS o ON 1 = 0) AS asked WHERE NOT (' + @definition + N')';
            BEGIN TRY
                EXEC sp_executesql @sql, N'@bad int OUTPUT', @bad = @bad OUTPUT;
            END TRY
            BEGIN CATCH
                SET @bad = 0;
            END CATCH;
            IF @bad > 0 AND @why IS NULL
                SET @why = N'its constraint ' + @check + N' forbids states of a queue (Scheduled, Queued, Processing, '
                           + N'Completed, DeadLetter, Cancelled): ' + LEFT(@definition, 1000);
            FETCH NEXT FROM checks INTO @check, @definition;
        END;
        CLOSE checks;
        DEALLOCATE checks;
    END;
END;

IF @why IS NOT NULL
BEGIN
    SET @why = N'The table ' + @name + N' cannot become a queue: ' + @why + N'. Nothing was changed.';
    THROW 51000, @why, 1;
END;

IF EXISTS (SELECT 1 FROM sys.columns
            WHERE object_id = @table AND TYPE_NAME(system_type_id) = N'varchar'
              AND name IN (N'CompositionId', N'PayloadJson', N'WorkerNodeId', N'OutputUrl', N'LastErrorMessage'))
    PRINT N'Note: of text in a varchar column, what its code page does not have is stored as question marks.';
CREATE TABLE #renderq_fits (yes bit NOT NULL);
GO

IF OBJECT_ID(N'tempdb..#renderq_fits') IS NULL
    RETURN;
IF OBJECT_ID(N'[dbo].[VideoRenderJobs]') IS NULL
    CREATE TABLE [dbo].[VideoRenderJobs] (
        JobId uniqueidentifier NOT NULL CONSTRAINT [VideoRenderJobs_DefaultJobId] DEFAULT NEWSEQUENTIALID(),
        CompositionId nvarchar(200) NOT NULL,
        PayloadJson nvarchar(max) NOT NULL,
        Priority int NOT NULL CONSTRAINT [VideoRenderJobs_DefaultPriority] DEFAULT 0,
        Status varchar(20) NOT NULL CONSTRAINT [VideoRenderJobs_DefaultStatus] DEFAULT 'Queued',
        WorkerNodeId nvarchar(128) NULL,
        LockedAtUtc datetime2(7) NULL,
        CreatedAtUtc datetime2(7) NOT NULL CONSTRAINT [VideoRenderJobs_DefaultCreatedAt] DEFAULT SYSUTCDATETIME(),
        CompletedAtUtc datetime2(7) NULL,
        OutputUrl nvarchar(2048) NULL,
        RetryCount int NOT NULL CONSTRAINT [VideoRenderJobs_DefaultRetryCount] DEFAULT 0,
        LastErrorMessage nvarchar(max) NULL,
        -- Other programs do not know these; each is NULL without a default, so that a full table gets it at once.
        StartedAtUtc datetime2(7) NULL,
        DueAtUtc datetime2(7) NULL,
        EndedAtUtc datetime2(7) NULL,
        LeasedAtUtc datetime2(7) NULL,
        MaxRetries int NULL,
        LeaseToken uniqueidentifier NULL,
        LeaseSeconds int NULL,
        DedupKey nvarchar(200) COLLATE Latin1_General_100_BIN2 NULL,
        Progress nvarchar(200) NULL,
        CONSTRAINT [VideoRenderJobs_PrimaryKey] PRIMARY KEY CLUSTERED (JobId),
        CONSTRAINT [VideoRenderJobs_CheckMaxRetries] CHECK (MaxRetries >= 0),
        CONSTRAINT [VideoRenderJobs_CheckLeaseSeconds] CHECK (LeaseSeconds > 0)
    );
GO

-- What a table lacks that somebody else made, or an older version of this script. Nothing here can fail on its rows.
IF OBJECT_ID(N'tempdb..#renderq_fits') IS NULL
    RETURN;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'WorkerNodeId') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD WorkerNodeId nvarchar(128) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'LockedAtUtc') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD LockedAtUtc datetime2(7) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'CompletedAtUtc') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD CompletedAtUtc datetime2(7) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'OutputUrl') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD OutputUrl nvarchar(2048) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'LastErrorMessage') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD LastErrorMessage nvarchar(max) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'StartedAtUtc') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD StartedAtUtc datetime2(7) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'DueAtUtc') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD DueAtUtc datetime2(7) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'EndedAtUtc') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD EndedAtUtc datetime2(7) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'LeasedAtUtc') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD LeasedAtUtc datetime2(7) NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'MaxRetries') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD MaxRetries int NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'LeaseToken') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD LeaseToken uniqueidentifier NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'LeaseSeconds') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD LeaseSeconds int NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'DedupKey') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD DedupKey nvarchar(200) COLLATE Latin1_General_100_BIN2 NULL;
IF COL_LENGTH(N'[dbo].[VideoRenderJobs]', N'Progress') IS NULL
    ALTER TABLE [dbo].[VideoRenderJobs] ADD Progress nvarchar(200) NULL;
GO

-- One small index for each thing that is looked for, so that no claim passes finished or waiting rows. An index does
-- not keep the name that it was given; it is known again by its definition, as PostgreSQL tells it.
IF OBJECT_ID(N'tempdb..#renderq_fits') IS NULL
    RETURN;
DECLARE @indexes TABLE (definition nvarchar(max) NOT NULL);
INSERT INTO @indexes (definition)
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = OBJECT_ID(N'[dbo].[VideoRenderJobs]');

-- The claim's order, to the letter.
IF NOT EXISTS (SELECT 1 FROM @indexes
                WHERE definition LIKE N'%(priority DESC%, createdatutc %, jobid %WHERE (status = ''Queued''%')
    CREATE INDEX [VideoRenderJobs_Queued] ON [dbo].[VideoRenderJobs] (Priority DESC, CreatedAtUtc ASC, JobId ASC)
     WHERE Status = 'Queued';
IF NOT EXISTS (SELECT 1 FROM @indexes WHERE definition LIKE N'%(dueatutc %WHERE (status = ''Scheduled''%')
    CREATE INDEX [VideoRenderJobs_Scheduled] ON [dbo].[VideoRenderJobs] (DueAtUtc)
     WHERE Status = 'Scheduled';
IF NOT EXISTS (SELECT 1 FROM @indexes WHERE definition LIKE N'%(lockedatutc %WHERE (status = ''Processing''%')
    CREATE INDEX [VideoRenderJobs_Leased] ON [dbo].[VideoRenderJobs] (LockedAtUtc)
     INCLUDE (LeaseSeconds, LeaseToken, LeasedAtUtc, StartedAtUtc)
     WHERE Status = 'Processing';
IF NOT EXISTS (SELECT 1 FROM @indexes WHERE definition LIKE N'%(completedatutc %WHERE (status = ''Completed''%')
    CREATE INDEX [VideoRenderJobs_Completed] ON [dbo].[VideoRenderJobs] (CompletedAtUtc)
     WHERE Status = 'Completed';
IF NOT EXISTS (SELECT 1 FROM @indexes WHERE definition LIKE N'%(endedatutc %WHERE %''DeadLetter''%''Cancelled''%')
    CREATE INDEX [VideoRenderJobs_Ended] ON [dbo].[VideoRenderJobs] (EndedAtUtc) INCLUDE (Status)
     WHERE Status IN ('DeadLetter', 'Cancelled');
-- Lets stats count what only other programs know, without reading the table.
IF NOT EXISTS (SELECT 1 FROM @indexes WHERE definition LIKE N'%(status %WHERE %status <> ''Scheduled''%')
    CREATE INDEX [VideoRenderJobs_Other] ON [dbo].[VideoRenderJobs] (Status)
     WHERE Status <> 'Scheduled' AND Status <> 'Queued' AND Status <> 'Processing' AND Status <> 'Completed'
       AND Status <> 'DeadLetter' AND Status <> 'Cancelled';
IF NOT EXISTS (SELECT 1 FROM @indexes
                WHERE definition LIKE N'CREATE UNIQUE %(dedupkey %WHERE %''Scheduled''%''Queued''%''Processing''%')
    CREATE UNIQUE INDEX [VideoRenderJobs_DedupKey] ON [dbo].[VideoRenderJobs] (DedupKey)
     WHERE DedupKey IS NOT NULL AND Status IN ('Scheduled', 'Queued', 'Processing');
DROP TABLE #renderq_fits;
GO
