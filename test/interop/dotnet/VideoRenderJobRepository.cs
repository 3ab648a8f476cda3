// The repository as the render queue's C# programs have it: Dapper, a connection a call, and nothing that knows of the
// library or of its columns. Only the table's name can be another one here.

using Dapper;
using Microsoft.Data.SqlClient;

namespace RenderqInterop;

public sealed record RenderJob(Guid JobId, string CompositionId, string PayloadJson, int RetryCount);

public sealed record RenderJobRow(
    Guid JobId, string CompositionId, string PayloadJson, int Priority, string Status, string? WorkerNodeId,
    DateTime? LockedAtUtc, DateTime CreatedAtUtc, DateTime? CompletedAtUtc, string? OutputUrl, int RetryCount,
    string? LastErrorMessage);

public sealed record StatusCount(string Status, int Jobs);

public sealed class VideoRenderJobRepository(string connectionString, string table = "dbo.VideoRenderJobs")
{
    public const string EnqueueSql = """
        INSERT INTO dbo.VideoRenderJobs (CompositionId, PayloadJson, Priority, Status)
        OUTPUT inserted.JobId
        VALUES (@compositionId, @payloadJson, @priority, 'Queued');
        """;

    public const string ClaimSql = """
        WITH NextJob AS (
            SELECT TOP (1) JobId, CompositionId, PayloadJson, RetryCount, Status, WorkerNodeId, LockedAtUtc
            FROM dbo.VideoRenderJobs WITH (UPDLOCK, READPAST, ROWLOCK)
            WHERE Status = 'Queued'
            ORDER BY Priority DESC, CreatedAtUtc ASC
        )
        UPDATE NextJob
        SET Status = 'Processing', WorkerNodeId = @workerNodeId, LockedAtUtc = SYSUTCDATETIME()
        OUTPUT inserted.JobId, inserted.CompositionId, inserted.PayloadJson, inserted.RetryCount;
        """;

    // Babelfish updates no CTE.
    public const string ClaimBabelfishSql = """
        UPDATE dbo.VideoRenderJobs
        SET Status = 'Processing', WorkerNodeId = @workerNodeId, LockedAtUtc = SYSUTCDATETIME()
        OUTPUT inserted.JobId, inserted.CompositionId, inserted.PayloadJson, inserted.RetryCount
        WHERE JobId IN (
            SELECT TOP (1) JobId
            FROM dbo.VideoRenderJobs
            WHERE Status = 'Queued'
            ORDER BY Priority DESC, CreatedAtUtc ASC
        ) AND Status = 'Queued';
        """;

    public const string CompleteSql = """
        UPDATE dbo.VideoRenderJobs
        SET Status = 'Completed', OutputUrl = @outputUrl, CompletedAtUtc = SYSUTCDATETIME()
        WHERE JobId = @jobId;
        """;

    public const string MarkFailedSql = """
        UPDATE dbo.VideoRenderJobs
        SET Status = CASE WHEN RetryCount >= 3 THEN 'DeadLetter' ELSE 'Queued' END,
            RetryCount = RetryCount + 1,
            LastErrorMessage = @errorMessage,
            WorkerNodeId = NULL,
            LockedAtUtc = NULL
        WHERE JobId = @jobId;
        """;

    public const string WatchdogSql = """
        UPDATE dbo.VideoRenderJobs
        SET Status = 'Queued', WorkerNodeId = NULL, LockedAtUtc = NULL
        WHERE Status = 'Processing' AND LockedAtUtc < DATEADD(MINUTE, -10, SYSUTCDATETIME());
        """;

    public const string JobSql = """
        SELECT JobId, CompositionId, PayloadJson, Priority, Status, WorkerNodeId, LockedAtUtc, CreatedAtUtc,
               CompletedAtUtc, OutputUrl, RetryCount, LastErrorMessage
        FROM dbo.VideoRenderJobs
        WHERE JobId = @jobId;
        """;

    public const string CountsSql = """
        SELECT Status, COUNT(*) AS Jobs
        FROM dbo.VideoRenderJobs
        GROUP BY Status;
        """;

    private const int NoSuchRelation = 33557097;
    private bool babelfish;

    public async Task<Guid> EnqueueAsync(string compositionId, string payloadJson, int priority)
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.QuerySingleAsync<Guid>(Sql(EnqueueSql), new { compositionId, payloadJson, priority });
    }

    public async Task<RenderJob?> ClaimNextAsync(string workerNodeId)
    {
        await using var connection = new SqlConnection(connectionString);
        try
        {
            return await connection.QueryFirstOrDefaultAsync<RenderJob>(
                Sql(babelfish ? ClaimBabelfishSql : ClaimSql), new { workerNodeId });
        }
        catch (SqlException e) when (e.Number == NoSuchRelation && !babelfish)
        {
            babelfish = true;
            return await ClaimNextAsync(workerNodeId);
        }
    }

    public async Task<int> CompleteAsync(Guid jobId, string outputUrl)
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.ExecuteAsync(Sql(CompleteSql), new { jobId, outputUrl });
    }

    public async Task<int> MarkFailedAsync(Guid jobId, string errorMessage)
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.ExecuteAsync(Sql(MarkFailedSql), new { jobId, errorMessage });
    }

    public async Task<int> RequeueStuckAsync()
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.ExecuteAsync(Sql(WatchdogSql));
    }

    public async Task<RenderJobRow?> GetAsync(Guid jobId)
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.QuerySingleOrDefaultAsync<RenderJobRow>(Sql(JobSql), new { jobId });
    }

    public async Task<IReadOnlyList<StatusCount>> CountAsync()
    {
        await using var connection = new SqlConnection(connectionString);
        return (await connection.QueryAsync<StatusCount>(Sql(CountsSql))).AsList();
    }

    private string Sql(string text) => text.Replace("dbo.VideoRenderJobs", table);
}
