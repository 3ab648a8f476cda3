-- expect case: the function jsonb_pretty is not in upper case
-- list: another function of PostgreSQL.
DECLARE @after uniqueidentifier = NULL, @state nvarchar(21) = NULL, @composition_id nvarchar(201) = NULL,
        @worker nvarchar(129) = NULL, @page int = 100;
-- statement
SELECT jsonb_pretty(@state), @after, @composition_id, @worker, @page;
