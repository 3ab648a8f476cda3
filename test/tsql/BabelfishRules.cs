// BabelfishRules.cs: what holds in sql/babelfish beside the rules that both servers share: its files are few, and say
// nothing that Babelfish cannot do or does otherwise.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

static class BabelfishRules
{
    // No statement of the library's contract: the driver asks it after an error.
    public const string Question = "missing";

    // Functions of PostgreSQL's that the files call; what else is in lower case is a slip.
    public static readonly HashSet<string> Functions =
        ["jsonb_object_field_text", "pg_try_advisory_xact_lock", "pg_get_indexdef"];

    // CAST(jsonb_object_field_text(item, 'name') AS type) as OPENJSON would have it: "$.name type".
    public static string? Field(CastCall cast) =>
        cast.Parameter is FunctionCall { FunctionName.Value: "jsonb_object_field_text",
                                         Parameters: [_, StringLiteral name] }
            ? $"$.{name.Value} {SqlFile.Source(cast.DataType)}" : null;

    // Only what differs is here.
    public static void Beside(SqlFile file, List<SqlFile> siblings, Findings findings)
    {
        Findings.Rules.Add("beside");
        SqlFile? sibling = siblings.Find(s => s.Name == file.Name);
        findings.Check("beside", sibling != null || file.Name == Question, file, 1,
            "no file of sql/sqlserver has this name");
        findings.Check("beside", sibling == null || Sent(sibling) != Sent(file), file, 1,
            "this is what sql/sqlserver says: it need not be here");
    }

    // What SQL Server's files put out of a row that they change may be stale there, so each of these has a file here.
    public static void Instead(List<SqlFile> files, List<SqlFile> here, Findings findings)
    {
        foreach (SqlFile file in files.Where(f => !f.IsScript && Outputs(f).Any()))
            findings.Check("beside", here.Exists(h => h.Name == file.Name), file, Outputs(file).First().StartLine,
                "OUTPUT is not to be relied on there: it needs a file of sql/babelfish");
    }

    static IEnumerable<UpdateSpecification> Outputs(SqlFile file) =>
        file.All<UpdateSpecification>().Where(u => u.OutputClause != null || u.OutputIntoClause != null);

    static IEnumerable<SelectElement> Output(UpdateSpecification update) =>
        (update.OutputClause?.SelectColumns ?? []).Concat(update.OutputIntoClause?.SelectColumns ?? []);

    // A column of `inserted` that no other statement changes under the same lease, or that this one sets.
    static bool IsFirm(SelectElement column, UpdateSpecification update)
    {
        string name = Name(SqlFile.Source(column));
        return name is "JobId" or "LeaseToken"
            || update.SetClauses.OfType<AssignmentSetClause>().Any(s => Name(SqlFile.Source(s.Column)) == name);
    }

    static string Name(string source) => source[(source.LastIndexOf('.') + 1)..];

    static string Sent(SqlFile file) => string.Join('\n', file.Lines[(file.Marker + 1)..]);

    public static void Unable(SqlFile file, Findings findings)
    {
        Findings.Rules.Add("unable");
        void Refuse(IEnumerable<TSqlFragment> fragments, string what)
        {
            findings.Checks++;
            foreach (TSqlFragment fragment in fragments)
                findings.Check("unable", false, file, fragment.StartLine, what);
        }
        Refuse(file.All<TableHint>(), "a hint, which does nothing there");
        Refuse(file.All<OptimizerHint>(), "OPTION, which does nothing there");
        Refuse(file.All<WithCtesAndXmlNamespaces>(), "a CTE cannot be changed there");
        Refuse(file.All<OpenJsonTableReference>()
                .Where(json => json.SchemaDeclarationItems.Any(i => SqlFile.Source(i.ColumnDefinition.DataType)
                    .StartsWith("nvarchar"))),
            "OPENJSON leaves the escapes in a text as they are");
        Refuse(file.All<ExecutableProcedureReference>()
                .Where(p => SqlFile.Source(p).StartsWith("sp_getapplock", StringComparison.OrdinalIgnoreCase)),
            "sp_getapplock, which brings the server down when it fails often enough");
        Refuse(file.All<OutputClause>()
                .Where(o => o.SelectColumns.OfType<SelectScalarExpression>()
                    .Any(c => c.Expression is not ColumnReferenceExpression)),
            "OUTPUT of an expression");
        Refuse(Outputs(file).Where(u => Output(u).Any(c => !IsFirm(c, u))),
            "OUTPUT of what the statement does not set: it is as it was before a wait for the row");
        Refuse(file.All<TSqlStatement>().OfType<DataModificationStatement>()
                .Where(s => file.All<OutputClause>(s).Count > 0 && CountsBehind(file, s)),
            "@@ROWCOUNT is 0 behind an OUTPUT to the client");
        Refuse(file.All<PredicateSetStatement>()
                .Where(s => s.Options.HasFlag(SetOptions.XactAbort) && !s.IsOn && !Restores(file)),
            "SET XACT_ABORT outlives the request: it must be set as it was");
    }

    static bool CountsBehind(SqlFile file, TSqlStatement statement) =>
        file.All<GlobalVariableExpression>().Exists(g => g.Name == "@@ROWCOUNT"
            && g.FirstTokenIndex > statement.LastTokenIndex);

    static bool Restores(SqlFile file) =>
        file.All<PredicateSetStatement>().Exists(s => s.Options.HasFlag(SetOptions.XactAbort) && s.IsOn)
        && file.All<GlobalVariableExpression>().Exists(g => g.Name == "@@OPTIONS");

    // The claim: what keeps two workers from one job is its last test, and what makes it cheap is the index.
    public static void Claim(SqlFile file, Schema schema, Findings findings)
    {
        Findings.Rules.Add("turn");
        if (file.Name != "claim")
            return;
        void Check(bool right, TSqlFragment at, string what) => findings.Check("turn", right, file, at.StartLine, what);

        List<UpdateStatement> updates = file.All<UpdateStatement>();
        Check(updates.Count == 2, file.Tree!, "a claim is two UPDATEs: what is due, and the jobs");
        if (updates.Count != 2)
            return;
        UpdateSpecification due = updates[0].UpdateSpecification, take = updates[1].UpdateSpecification;
        Check(SqlFile.Source(due.TopRowFilter) == "TOP (100)", due, "what is due is queued TOP (100) at a time");
        Check(SqlFile.Source(due.WhereClause) == "WHERE Status = 'Scheduled' AND DueAtUtc <= @now", due,
            "what is due is not found by WHERE Status = 'Scheduled' AND DueAtUtc <= @now, its index");

        CreateIndexStatement? index = schema.Index("Queued");
        string filter = SqlFile.Source(index?.FilterPredicate);
        Check(SqlFile.Source(take.WhereClause).EndsWith($") AND {filter}"), take,
            $"the UPDATE does not end in {filter}: two claims would take one job");
        if (file.All<ScalarSubquery>(take.WhereClause) is not [{ QueryExpression: QuerySpecification query }])
        {
            Check(false, take, "the UPDATE takes the jobs of one subquery");
            return;
        }
        string order = "ORDER BY " + string.Join(", ", index?.Columns.Select(SqlFile.Source) ?? []);
        Check(SqlFile.Source(query.TopRowFilter) == "TOP (@batch)", query, "the subquery is not TOP (@batch)");
        Check(SqlFile.Source(query.OrderByClause) == order, query,
            $"{SqlFile.Source(query.OrderByClause)} is not the index's {order}");
        Check(SqlFile.Source(query.WhereClause) == "WHERE " + filter, query,
            $"{SqlFile.Source(query.WhereClause)} is not the index's WHERE {filter}");
        Check(file.All<WhileStatement>().Exists(w => file.All<UpdateStatement>(w).Contains(updates[1])), take,
            "a claim that met another's row must look again");
    }
}
