// ClaimRules.cs: the claim, to the letter. A claim that is a little different works in every test and stops under load.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

static class ClaimRules
{
    public static void Claim(SqlFile file, Schema schema, Findings findings)
    {
        Findings.Rules.Add("claim");
        if (file.Name != "claim")
            return;
        void Check(bool right, TSqlFragment at, string what) =>
            findings.Check("claim", right, file, at.StartLine, what);

        List<UpdateStatement> updates = file.All<UpdateStatement>();
        Check(updates.Count == 3, file.Tree!, "a claim is three UPDATEs: what is due, one job, many jobs");
        if (updates.Count != 3)
            return;

        UpdateSpecification due = updates[0].UpdateSpecification;
        Check(SqlFile.Source(due.TopRowFilter) == "TOP (100)", due, "what is due is queued TOP (100) at a time");
        Check(Hints(due.Target) == "READPAST ROWLOCK UPDLOCK", due, "the hints are not UPDLOCK, READPAST, ROWLOCK");
        Check(SqlFile.Source(due.WhereClause) == "WHERE Status = 'Scheduled' AND DueAtUtc <= @now", due,
            "what is due is not found by WHERE Status = 'Scheduled' AND DueAtUtc <= @now, its index");

        CreateIndexStatement? index = schema.Index("Queued");
        string order = "ORDER BY " + string.Join(", ", index?.Columns.Select(SqlFile.Source) ?? []);
        string filter = "WHERE " + SqlFile.Source(index?.FilterPredicate);
        (string Top, string Options)[] forms = [("TOP (1)", "MAXDOP 1"),
                                                ("TOP (@batch)", "MAXDOP 1, OPTIMIZE FOR (@batch = 1)")];
        for (int i = 0; i < forms.Length; i++)
        {
            UpdateStatement update = updates[i + 1];
            UpdateSpecification change = update.UpdateSpecification;
            Check(change.WhereClause == null && change.FromClause == null, update,
                "the UPDATE takes what the CTE found, and nothing else");
            string options = string.Join(", ", update.OptimizerHints.Select(Option));
            Check(options == forms[i].Options, update, $"OPTION is ({options}), not ({forms[i].Options})");
            if (update.WithCtesAndXmlNamespaces?.CommonTableExpressions
                    is not [{ QueryExpression: QuerySpecification query }]
                || query.FromClause?.TableReferences is not [NamedTableReference table])
            {
                Check(false, update, "a claim is the UPDATE of one CTE over the table");
                continue;
            }
            Check(SqlFile.Source(query.TopRowFilter) == forms[i].Top, query,
                $"the CTE does not begin with {forms[i].Top}");
            Check(SqlFile.Source(query.OrderByClause) == order, query,
                $"{SqlFile.Source(query.OrderByClause)} is not the index's {order}");
            Check(SqlFile.Source(query.WhereClause) == filter, query,
                $"{SqlFile.Source(query.WhereClause)} is not the index's {filter}");
            Check(Hints(table) == "READPAST ROWLOCK UPDLOCK", query, "the hints are not UPDLOCK, READPAST, ROWLOCK");
        }
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
