-- output: the output URL of a job that this transaction has completed.
DECLARE @id uniqueidentifier = '5F1D2C3B-4A59-4687-9A0B-019AD0000000',
        @token uniqueidentifier = '0D6E5F4C-3B2A-4190-8F7E-6D5C4B3A2918',
        @output_url nvarchar(2049) = NULL;
-- statement
UPDATE [dbo].[VideoRenderJobs]
   SET OutputUrl = COALESCE(@output_url, OutputUrl)
 WHERE JobId = @id AND LeaseToken = @token AND LeasedAtUtc IS NULL AND Status = 'Completed';
IF @@ROWCOUNT > 0
    SELECT 1;
