-- expect isolation: this reads WITH (READUNCOMMITTED)
-- stats: without a hint.
-- statement
SELECT COUNT_BIG(*) FROM [dbo].[VideoRenderJobs] WHERE Status = 'Queued';
