-- expect parameters: an item is $.i int, $.id uniqueidentifier; the contract has
-- complete_many: reads too little of an item.
DECLARE @items nvarchar(max) = N'[{"i":0}]';
-- statement
SELECT CAST(jsonb_object_field_text(item, 'i') AS int), 1
  FROM jsonb_array_elements(CAST(@items AS jsonb)) AS e (item)
 WHERE CAST(jsonb_object_field_text(item, 'id') AS uniqueidentifier) IS NOT NULL;
