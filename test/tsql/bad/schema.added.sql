-- expect schema: LeaseSeconds bigint NULL is added
-- schema: two widths of one column.
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO
CREATE TABLE [dbo].[VideoRenderJobs] (LeaseSeconds int NULL);
ALTER TABLE [dbo].[VideoRenderJobs] ADD LeaseSeconds bigint NULL;
