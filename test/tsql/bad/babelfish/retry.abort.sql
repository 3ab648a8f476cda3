-- expect unable: SET XACT_ABORT outlives the request
-- retry: leaves XACT_ABORT off.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000', @dead_only bit = 0;
-- statement
SET XACT_ABORT OFF;
SELECT 0, CONVERT(char(36), @id), CAST(@dead_only AS nvarchar(20));
