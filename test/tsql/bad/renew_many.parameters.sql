-- expect parameters: $.progress is read and never used
-- renew_many: without its progress.
DECLARE @items nvarchar(max) = N'[]';
-- statement
DECLARE @jobs TABLE (i int NOT NULL PRIMARY KEY, Progress nvarchar(201));
INSERT INTO @jobs (i, Progress)
SELECT i, Progress
  FROM OPENJSON(@items) WITH (i int '$.i', Progress nvarchar(201) '$.progress');
SELECT i FROM @jobs;
