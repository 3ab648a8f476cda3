// A peer of the benchmark: .NET with Dapper, doing the statements that the library does, by the same texts. It is told
// by lines what to do and says when it has; bench/wire_peers.c measures.
//
//     enqueue N       N jobs, one by one
//     work N          claims and completes N jobs, one by one
//
// PEER_SERVER, PEER_PORT, PEER_DATABASE, PEER_USER and PEER_PASSWORD say where the server is, PEER_SQL the folders of
// the texts (the first that has one, split by ':'), PEER_TABLE the table in brackets, PEER_PAYLOAD what jobs carry.

using System.Data;
using Dapper;
using Microsoft.Data.SqlClient;

namespace RenderqPeer;

internal static class Program
{
    private const string Worker = "bench";

    private static string Needed(string name) =>
        Environment.GetEnvironmentVariable(name) ?? throw new InvalidOperationException($"{name} is not set");

    // What stands below the marker, for another table. Above it the parameters are declared; here they are sent.
    private static string Text(string name)
    {
        const string marker = "\n-- statement\n";
        string path = Needed("PEER_SQL").Split(':').Select(folder => Path.Combine(folder, name + ".sql"))
            .First(File.Exists);
        string whole = File.ReadAllText(path);
        return whole[(whole.IndexOf(marker, StringComparison.Ordinal) + marker.Length)..]
            .Replace("[dbo].[VideoRenderJobs]", Needed("PEER_TABLE"));
    }

    private static DbString Unicode(string? value, int length) => new() { Value = value, Length = length };

    private sealed class Peer(SqlConnection connection, string payload)
    {
        private readonly string enqueue = Text("enqueue"), claim = Text("claim"), complete = Text("complete");

        public void Enqueue()
        {
            var values = new DynamicParameters();
            values.Add("id", Guid.NewGuid());
            values.Add("composition_id", Unicode("composition", 201));
            values.Add("payload", Unicode(payload, -1));
            values.Add("output_url", Unicode(null, 2049));
            values.Add("dedup_key", Unicode(null, 201));
            values.Add("priority", 0);
            values.Add("max_retries", null, DbType.Int32);
            values.Add("delay_ms", 0L);
            (int state, string _) = connection.QuerySingle<(int, string)>(enqueue, values);
            if (state != 0)
                throw new InvalidOperationException("a job did not get in");
        }

        // By position, as the library reads them: most columns have no name.
        private (string Id, string Payload) Claim(Guid token)
        {
            var values = new DynamicParameters();
            values.Add("worker", Unicode(Worker, 129));
            values.Add("token", token);
            values.Add("lease_s", 600);
            values.Add("unstarted", false);
            values.Add("batch", 1);
            using IDataReader rows = connection.ExecuteReader(claim, values);
            if (!rows.Read())
                throw new InvalidOperationException("a claim found no job");
            var row = new object[rows.FieldCount];
            rows.GetValues(row);
            return ((string)row[0], (string)row[4]);
        }

        public void Work()
        {
            Guid token = Guid.NewGuid();
            (string id, string taken) = Claim(token);
            var values = new DynamicParameters();
            values.Add("id", Guid.Parse(id));
            values.Add("token", token);
            values.Add("output_url", Unicode("out.mp4", 2049));
            if (connection.Query<int>(complete, values).Count() != 1 || taken.Length != payload.Length)
                throw new InvalidOperationException("a job was lost");
        }
    }

    private static void Main()
    {
        var where = new SqlConnectionStringBuilder {
            DataSource = $"{Needed("PEER_SERVER")},{Needed("PEER_PORT")}", InitialCatalog = Needed("PEER_DATABASE"),
            UserID = Needed("PEER_USER"), Password = Needed("PEER_PASSWORD"), Pooling = false,
            Encrypt = SqlConnectionEncryptOption.Optional, TrustServerCertificate = true };
        using var connection = new SqlConnection(where.ConnectionString);
        connection.Open();
        connection.Execute("SET XACT_ABORT ON; SET NOCOUNT ON; SET ARITHABORT ON");
        var peer = new Peer(connection, Needed("PEER_PAYLOAD"));
        Console.WriteLine("ready");
        while (Console.ReadLine() is { } line)
        {
            string[] words = line.Split(' ');
            Action step = words[0] == "enqueue" ? peer.Enqueue : peer.Work;
            for (int left = int.Parse(words[1]); left > 0; left--)
                step();
            Console.WriteLine("done");
        }
    }
}
