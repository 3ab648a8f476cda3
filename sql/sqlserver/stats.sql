-- stats: jobs by state, the age of the oldest queued one, leases run out, and what was completed lately.
-- Each state is counted on its own index, never the table itself, and nobody is waited for.
-- statement
DECLARE @now datetime2(7) = SYSUTCDATETIME();

DECLARE @scheduled bigint, @queued bigint, @processing bigint, @completed bigint, @dead_letter bigint,
        @cancelled bigint, @other bigint, @oldest bigint, @run_out bigint, @in_1 bigint, @in_5 bigint, @in_15 bigint;

SELECT @scheduled = COUNT_BIG(*) FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED) WHERE Status = 'Scheduled';

SELECT @queued = COUNT_BIG(*), @oldest = DATEDIFF_BIG(MILLISECOND, MIN(CreatedAtUtc), @now)
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 WHERE Status = 'Queued';

SELECT @processing = COUNT_BIG(*),
       @run_out = SUM(CAST(CASE WHEN LockedAtUtc <= DATEADD(SECOND, -CASE WHEN LeasedAtUtc = LockedAtUtc
                                                                          THEN LeaseSeconds ELSE 600 END, @now)
                                THEN 1 ELSE 0 END AS bigint))
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 WHERE Status = 'Processing';

SELECT @completed = COUNT_BIG(*),
       @in_1 = SUM(CAST(CASE WHEN CompletedAtUtc > DATEADD(MINUTE, -1, @now) THEN 1 ELSE 0 END AS bigint)),
       @in_5 = SUM(CAST(CASE WHEN CompletedAtUtc > DATEADD(MINUTE, -5, @now) THEN 1 ELSE 0 END AS bigint)),
       @in_15 = SUM(CAST(CASE WHEN CompletedAtUtc > DATEADD(MINUTE, -15, @now) THEN 1 ELSE 0 END AS bigint))
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 WHERE Status = 'Completed';

SELECT @dead_letter = SUM(CAST(CASE WHEN Status = 'DeadLetter' THEN 1 ELSE 0 END AS bigint)),
       @cancelled = SUM(CAST(CASE WHEN Status = 'Cancelled' THEN 1 ELSE 0 END AS bigint))
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 WHERE Status IN ('DeadLetter', 'Cancelled');

SELECT @other = COUNT_BIG(*)
  FROM [dbo].[VideoRenderJobs] WITH (READUNCOMMITTED)
 WHERE Status <> 'Scheduled' AND Status <> 'Queued' AND Status <> 'Processing' AND Status <> 'Completed'
   AND Status <> 'DeadLetter' AND Status <> 'Cancelled';

SELECT @scheduled, @queued, @processing, @completed, ISNULL(@dead_letter, 0), ISNULL(@cancelled, 0), @other,
       ISNULL(@oldest, 0), ISNULL(@run_out, 0), ISNULL(@in_1, 0), ISNULL(@in_5, 0), ISNULL(@in_15, 0);
