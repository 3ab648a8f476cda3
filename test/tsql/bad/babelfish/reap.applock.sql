-- expect unable: sp_getapplock
-- reap: waits for a lock that can end the server.
DECLARE @batch int = 1000;
-- statement
DECLARE @got int;
EXEC @got = sp_getapplock @Resource = N'renderq', @LockMode = N'Exclusive', @LockTimeout = 1;
SELECT @got, @batch;
