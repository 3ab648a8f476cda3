-- expect name: VideoRenderJobs_Ended is not in the form
-- schema: a derived name without its brackets.
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO
CREATE INDEX VideoRenderJobs_Ended ON [dbo].[VideoRenderJobs] (EndedAtUtc);
