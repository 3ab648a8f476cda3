// ClaimRules.cs: the claim, to the letter. A claim that is a little different works in every test and stops under load.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

static class ClaimRules
{
    // One UPDATE of a CTE: how many rows, which, in what order, and how it is planned.
    record Form(string Top, string Where, string Order, string Options);

    public static void Claim(SqlFile file, Schema schema, Findings findings)
    {
        Findings.Rules.Add("claim");
        if (file.Name is not ("claim" or "take"))
            return;
        void Check(bool right, TSqlFragment at, string what) =>
            findings.Check("claim", right, file, at.StartLine, what);

        string due = "WHERE Status = 'Scheduled' AND DueAtUtc <= @now";
        string queued = "WHERE " + SqlFile.Source(schema.Index("Queued")?.FilterPredicate);
        Form[] forms = file.Name == "claim"
            ? [new("TOP (1)", queued, Order(schema, "Queued"), "MAXDOP 1"),
               new("TOP (@batch)", queued, Order(schema, "Queued"), "MAXDOP 1, OPTIMIZE FOR (@batch = 1)")]
            : [new("TOP (1)", queued, Order(schema, "Queued"), "MAXDOP 1"),
               new("TOP (1)", due, Order(schema, "Scheduled"), "MAXDOP 1")];
        List<UpdateStatement> updates = file.All<UpdateStatement>();
        int first = file.Name == "claim" ? 1 : 0;
        Check(updates.Count == first + forms.Length, file.Tree!, file.Name == "claim"
            ? "a claim is three UPDATEs: what is due, one job, many jobs"
            : "a take is two UPDATEs: a queued job, and one that is due; it queues nothing");
        if (updates.Count != first + forms.Length)
            return;
        if (first == 1)
        {
            UpdateSpecification promote = updates[0].UpdateSpecification;
            Check(SqlFile.Source(promote.TopRowFilter) == "TOP (100)", promote,
                "what is due is queued TOP (100) at a time");
            Check(Hints(promote.Target) == "READPAST ROWLOCK UPDLOCK", promote,
                "the hints are not UPDLOCK, READPAST, ROWLOCK");
            Check(SqlFile.Source(promote.WhereClause) == due, promote, $"what is due is not found by {due}, its index");
        }
        for (int i = 0; i < forms.Length; i++)
            One(updates[first + i], forms[i], Check);
    }

    static string Order(Schema schema, string index) =>
        "ORDER BY " + string.Join(", ", schema.Index(index)?.Columns.Select(SqlFile.Source) ?? []);

    static void One(UpdateStatement update, Form form, Action<bool, TSqlFragment, string> Check)
    {
        UpdateSpecification change = update.UpdateSpecification;
        Check(change.WhereClause == null && change.FromClause == null, update,
            "the UPDATE takes what the CTE found, and nothing else");
        string options = string.Join(", ", update.OptimizerHints.Select(Option));
        Check(options == form.Options, update, $"OPTION is ({options}), not ({form.Options})");
        if (update.WithCtesAndXmlNamespaces?.CommonTableExpressions
                is not [{ QueryExpression: QuerySpecification query }]
            || query.FromClause?.TableReferences is not [NamedTableReference table])
        {
            Check(false, update, "a claim is the UPDATE of one CTE over the table");
            return;
        }
        Check(SqlFile.Source(query.TopRowFilter) == form.Top, query, $"the CTE does not begin with {form.Top}");
        Check(SqlFile.Source(query.OrderByClause) == form.Order, query,
            $"{SqlFile.Source(query.OrderByClause)} is not the index's {form.Order}");
        Check(SqlFile.Source(query.WhereClause) == form.Where, query,
            $"{SqlFile.Source(query.WhereClause)} is not the index's {form.Where}");
        Check(Hints(table) == "READPAST ROWLOCK UPDLOCK", query, "the hints are not UPDLOCK, READPAST, ROWLOCK");
    }

    // A hint's own tokens leave its words out.
    static string Option(OptimizerHint hint) => hint switch
    {
        LiteralOptimizerHint { HintKind: OptimizerHintKind.MaxDop } one => "MAXDOP " + SqlFile.Source(one.Value),
        OptimizeForOptimizerHint { IsForUnknown: false } one =>
            "OPTIMIZE FOR ("
            + string.Join(", ", one.Pairs.Select(p => $"{p.Variable.Name} = {SqlFile.Source(p.Value)}")) + ")",
        _ => hint.HintKind.ToString()
    };

    static string Hints(TableReference table) =>
        string.Join(' ', ((table as NamedTableReference)?.TableHints ?? []).Select(h => h.HintKind.ToString().ToUpper())
            .Order());
}
