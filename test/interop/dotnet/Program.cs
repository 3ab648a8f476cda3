// The C# side of test/interop/turns.sh: one call of the repository, or a producer or worker that makes many.
//
//   interop texts                       the repository says what the files of test/interop say
//   interop URL TABLE COMMAND...        see Run below; URL is as for the library, sqlserver://USER@HOST:PORT/DATABASE

using System.Reflection;
using System.Text.Json;
using Dapper;
using Microsoft.Data.SqlClient;
using RenderqInterop;

try
{
    return args is ["texts"] ? CompareTexts() : args.Length >= 3 ? await Run(args[0], args[1], args[2..]) : Usage();
}
catch (SqlException e)
{
    Console.Error.WriteLine($"interop: {string.Join(' ', args.Skip(2))}: {e.Number} {e.Message}");
    return 1;
}

static int Usage()
{
    Console.Error.WriteLine("usage: interop texts | interop URL TABLE COMMAND [ARGUMENT...]");
    return 2;
}

static async Task<int> Run(string url, string table, string[] command)
{
    var connectionString = ConnectionString(url);
    var repository = new VideoRenderJobRepository(connectionString, table);
    switch (command)
    {
        case ["create"]:
            await ExecuteFile("table");
            break;
        case ["drop"]:
            await ExecuteFile("drop");
            break;
        case ["age", var id, var seconds]:
            Console.WriteLine(await ExecuteFile("age", new { jobId = Guid.Parse(id), seconds = int.Parse(seconds) }));
            break;
        case ["enqueue", var composition, var payload, var priority]:
            Console.WriteLine(await repository.EnqueueAsync(composition, payload, int.Parse(priority)));
            break;
        case ["claim", var worker]:
            Print(await repository.ClaimNextAsync(worker));
            break;
        case ["complete", var id, var outputUrl]:
            Console.WriteLine(await repository.CompleteAsync(Guid.Parse(id), outputUrl));
            break;
        case ["fail", var id, var message]:
            Console.WriteLine(await repository.MarkFailedAsync(Guid.Parse(id), message));
            break;
        case ["watchdog"]:
            Console.WriteLine(await repository.RequeueStuckAsync());
            break;
        case ["job", var id]:
            Print(await repository.GetAsync(Guid.Parse(id)));
            break;
        case ["counts"]:
            Print((await repository.CountAsync()).ToDictionary(count => count.Status, count => count.Jobs));
            break;
        case ["produce", var n]:
            for (var i = 0; i < int.Parse(n); i++)
                await repository.EnqueueAsync("theirs", $$"""{"n": {{i}}}""", i % 3);
            break;
        case ["work", var worker, var most, var fails, var log]:
            await Work(repository, worker, int.Parse(most), fails == "half", log);
            break;
        case ["engine"]:
            Console.WriteLine(await IsBabelfish(connectionString) ? "babelfish" : "sqlserver");
            break;
        default:
            return Usage();
    }
    return 0;

    async Task<int> ExecuteFile(string name, object? values = null)
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.ExecuteAsync(File(name).Replace("dbo.VideoRenderJobs", table), values);
    }
}

static async Task<bool> IsBabelfish(string connectionString)
{
    try
    {
        await using var connection = new SqlConnection(connectionString);
        return await connection.ExecuteScalarAsync("SELECT SERVERPROPERTY('Babelfish')") is not (null or DBNull);
    }
    catch (SqlException)
    {
        return false;               // the test server knows no such statement
    }
}

// Until nothing is left to do, or `most` attempts were made. The first attempt at half of the jobs may fail. A line of
// the log is a job done.
static async Task Work(VideoRenderJobRepository repository, string worker, int most, bool half, string log)
{
    await using var done = new StreamWriter(log) { AutoFlush = true };
    for (var made = 0; made < most;)
    {
        var job = await repository.ClaimNextAsync(worker);
        if (job is null)
        {
            var counts = await repository.CountAsync();
            if (counts.All(count => count.Status is "Completed" or "DeadLetter" or "Cancelled"))
                return;
            await Task.Delay(20);
            continue;
        }
        made++;
        if (half && job.RetryCount == 0 && job.JobId.ToString()[0] % 2 != 0)
        {
            await repository.MarkFailedAsync(job.JobId, "at first");
            continue;
        }
        await repository.CompleteAsync(job.JobId, "theirs");
        await done.WriteLineAsync(job.JobId.ToString().ToUpperInvariant());
    }
}

static void Print(object? value)
{
    Console.WriteLine(JsonSerializer.Serialize(value, new JsonSerializerOptions
    {
        Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping
    }));
}

static string ConnectionString(string url)
{
    var parts = new Uri(url);
    var user = parts.UserInfo.Split(':', 2).Select(Uri.UnescapeDataString).ToArray();
    return new SqlConnectionStringBuilder
    {
        DataSource = $"{parts.Host},{(parts.Port > 0 ? parts.Port : 1433)}",
        InitialCatalog = Uri.UnescapeDataString(parts.AbsolutePath.TrimStart('/')),
        UserID = user[0],
        Password = user.Length > 1 ? user[1] : Environment.GetEnvironmentVariable("RENDERQ_PASSWORD") ?? "",
        Encrypt = SqlConnectionEncryptOption.Optional,
        TrustServerCertificate = true,
    }.ConnectionString;
}

static string File(string name)
{
    using var stream = Assembly.GetExecutingAssembly().GetManifestResourceStream(name)
                       ?? throw new FileNotFoundException($"{name}.sql is not embedded");
    var text = new StreamReader(stream).ReadToEnd();
    return text[(text.IndexOf("\n-- statement\n", StringComparison.Ordinal) + "\n-- statement\n".Length)..];
}

static int CompareTexts()
{
    (string File, string Text)[] texts =
    [
        ("enqueue", VideoRenderJobRepository.EnqueueSql), ("claim", VideoRenderJobRepository.ClaimSql),
        ("claim_babelfish", VideoRenderJobRepository.ClaimBabelfishSql),
        ("complete", VideoRenderJobRepository.CompleteSql), ("mark_failed", VideoRenderJobRepository.MarkFailedSql),
        ("watchdog", VideoRenderJobRepository.WatchdogSql), ("job", VideoRenderJobRepository.JobSql),
        ("counts", VideoRenderJobRepository.CountsSql),
    ];
    var wrong = texts.Where(text => Squeezed(text.Text) != Squeezed(File(text.File))).ToList();
    foreach (var text in wrong)
        Console.Error.WriteLine($"interop: the repository and {text.File}.sql differ");
    return wrong.Count == 0 ? 0 : 1;

    static string Squeezed(string text) =>
        string.Join(' ', text.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));
}
