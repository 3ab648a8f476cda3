-- expect unable: OPENJSON leaves the escapes
-- complete_many: texts that come with their escapes.
DECLARE @items nvarchar(max) = N'[{"i":0}]';
-- statement
SELECT i, 1
  FROM OPENJSON(@items)
  WITH (i int '$.i', JobId uniqueidentifier '$.id', LeaseToken uniqueidentifier '$.token',
        OutputUrl nvarchar(2049) '$.output_url');
