-- expect forbidden: an index inside CREATE TABLE
-- schema: with an index inside CREATE TABLE.
-- statement
SET QUOTED_IDENTIFIER ON;
SET ANSI_NULLS ON;
GO
CREATE TABLE [dbo].[VideoRenderJobs] (LeaseSeconds int NULL INDEX [VideoRenderJobs_Seconds]);
