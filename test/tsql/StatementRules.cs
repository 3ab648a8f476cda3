// StatementRules.cs: what a statement may do to the table: locks, fences, limits, and what each change must say.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

static class StatementRules
{
    // Where it is safe to miss a row. Elsewhere one that is passed over would be a call that does nothing and tells
    // nobody.
    static readonly string[] mayPass = ["claim", "take", "claimed", "reap", "purge", "watchdog"];

    static readonly string[] lookUps = ["claimed", "started", "completed", "returned", "resume", "enqueue", "retry"];
    static readonly string[] dirtyReads = ["stats", "list"];
    static readonly string[] fenced = ["complete", "fail", "renew", "release", "start"];
    static readonly string[] keepToken = ["complete", "fail", "release"];

    // ---- hints ----

    public static void Hints(SqlFile file, Findings findings)
    {
        Findings.Rules.UnionWith(["readpast", "hints", "isolation"]);
        TableHintKind[] known = [TableHintKind.UpdLock, TableHintKind.ReadPast, TableHintKind.Rowlock,
                                 TableHintKind.ReadCommittedLock, TableHintKind.ReadUncommitted];
        foreach (TableHint hint in file.All<TableHint>())
            findings.Check("hints", known.Contains(hint.HintKind), file, hint.StartLine,
                $"the hint {SqlFile.Source(hint)} is not one of ours");
        HashSet<TableReference> targets = Targets(file);
        foreach (NamedTableReference table in file.All<NamedTableReference>())
        {
            var hints = table.TableHints.Select(h => h.HintKind).ToHashSet();
            if (hints.Contains(TableHintKind.ReadPast))
            {
                findings.Check("readpast", mayPass.Contains(file.Name), file, table.StartLine,
                    "READPAST where a row must not be missed");
                findings.Check("readpast",
                    hints.Contains(TableHintKind.UpdLock) && hints.Contains(TableHintKind.Rowlock), file,
                    table.StartLine, "READPAST without UPDLOCK and ROWLOCK");
            }
            if (!file.IsScript && SqlFile.Source(table.SchemaObject) == SqlFile.Table && !targets.Contains(table))
                Isolation(file, table, hints, findings);
        }
    }

    static void Isolation(SqlFile file, NamedTableReference table, HashSet<TableHintKind> hints, Findings findings)
    {
        if (lookUps.Contains(file.BaseName))
            findings.Check("isolation", hints.Contains(TableHintKind.ReadCommittedLock), file, table.StartLine,
                "a look-up reads WITH (READCOMMITTEDLOCK), or it misses what is still being written");
        else if (dirtyReads.Contains(file.BaseName))
            findings.Check("isolation", hints.SetEquals([TableHintKind.ReadUncommitted]), file, table.StartLine,
                "this reads WITH (READUNCOMMITTED), or it waits for strangers");
        else if (file.BaseName is not ("claim" or "take"))
            findings.Check("isolation", hints.Count == 0, file, table.StartLine, "this reads without hints");
    }

    // References that stand for what is changed, not for what is read.
    static HashSet<TableReference> Targets(SqlFile file)
    {
        var targets = new HashSet<TableReference>();
        foreach (DataModificationSpecification change in file.All<DataModificationSpecification>())
        {
            targets.Add(change.Target);
            string? name = (change.Target as NamedTableReference)?.SchemaObject.BaseIdentifier.Value;
            targets.UnionWith(file.All<NamedTableReference>(change)
                .Where(t => t.Alias != null && t.Alias.Value == name));
        }
        return targets;
    }

    // ---- changes ----

    public static void Changes(SqlFile file, Findings findings)
    {
        Findings.Rules.UnionWith(["where", "top", "fence", "ends", "rows"]);
        foreach (UpdateDeleteSpecificationBase change in file.All<UpdateDeleteSpecificationBase>())
        {
            findings.Check("where", change.WhereClause != null || CteOf(file, change)?.WhereClause != null, file,
                change.StartLine, "an UPDATE or DELETE without WHERE");
            if (change.TopRowFilter != null)
            {
                ScalarExpression top = Bare(change.TopRowFilter.Expression);
                findings.Check("top", top is VariableReference { Name: "@batch" }
                                      || top is IntegerLiteral n && int.Parse(n.Value) <= 1000,
                    file, change.StartLine,
                    "TOP is neither @batch nor at most 1000: locks would grow into the table's");
            }
            if (ChangesQueue(file, change) && change is UpdateSpecification update)
            {
                if (fenced.Contains(file.BaseName))
                    Fence(file, update, findings);
                Ends(file, update, findings);
            }
        }
        foreach (IList<TSqlStatement> list in Lists(file))
            for (int i = 0; i < list.Count; i++)
                if (list[i] is UpdateStatement or DeleteStatement)
                    Rows(file, list[i], i + 1 < list.Count ? list[i + 1] : null, findings);
    }

    static ScalarExpression Bare(ScalarExpression expression) =>
        expression is ParenthesisExpression inner ? Bare(inner.Expression) : expression;

    static QuerySpecification? CteOf(SqlFile file, DataModificationSpecification change)
    {
        string? target = (change.Target as NamedTableReference)?.SchemaObject.BaseIdentifier.Value;
        return file.All<CommonTableExpression>().Find(c => c.ExpressionName.Value == target)?.QueryExpression
            as QuerySpecification;
    }

    static bool ChangesQueue(SqlFile file, UpdateDeleteSpecificationBase change)
    {
        if (change.Target is not NamedTableReference target)
            return false;
        string name = target.SchemaObject.BaseIdentifier.Value;
        return SqlFile.Source(target.SchemaObject) == SqlFile.Table || CteOf(file, change) != null
               || file.All<NamedTableReference>(change).Exists(t => t.Alias?.Value == name);
    }

    // Only the owner of a lease passes; each part keeps somebody else out.
    static void Fence(SqlFile file, UpdateSpecification update, Findings findings)
    {
        var said = file.All<BooleanComparisonExpression>(update.WhereClause)
            .Concat(update.FromClause == null ? [] : file.All<BooleanComparisonExpression>(update.FromClause))
            .Where(c => c.ComparisonType == BooleanComparisonType.Equals)
            .SelectMany(c => new[] { (Last(c.FirstExpression), Last(c.SecondExpression)),
                                     (Last(c.SecondExpression), Last(c.FirstExpression)) })
            .ToHashSet();
        (string, string)[] wanted = file.IsMany
            ? [("JobId", "JobId"), ("LeaseToken", "LeaseToken"), ("LeasedAtUtc", "LockedAtUtc"),
               ("Status", "'Processing'")]
            : [("JobId", "@id"), ("LeaseToken", "@token"), ("LeasedAtUtc", "LockedAtUtc"), ("Status", "'Processing'")];
        foreach ((string column, string value) in wanted)
            findings.Check("fence", said.Contains((column, value)), file, update.StartLine,
                $"the fence lacks {column} = {value}");
        findings.Check("fence", file.All<BooleanBinaryExpression>(update.WhereClause)
                .TrueForAll(b => b.BinaryExpressionType == BooleanBinaryExpressionType.And),
            file, update.StartLine, "an OR in the fence");
    }

    static string Last(ScalarExpression expression) =>
        expression is ColumnReferenceExpression { MultiPartIdentifier: { } name } ? name.Identifiers[^1].Value
                                                                                  : SqlFile.Source(expression);

    // Whatever ends a lease leaves nothing of it in the row; the token stays where a repeat looks for it.
    static void Ends(SqlFile file, UpdateSpecification update, Findings findings)
    {
        var set = update.SetClauses.OfType<AssignmentSetClause>().Where(s => s.Column != null)
            .GroupBy(s => s.Column.MultiPartIdentifier.Identifiers[^1].Value)
            .ToDictionary(g => g.Key, g => SqlFile.Source(g.First().NewValue));
        if (!set.TryGetValue("Status", out string? status) || status == "'Processing'" || IsPromotion(update))
            return;
        void Check(bool right, string what) => findings.Check("ends", right, file, update.StartLine, what);
        Check(set.GetValueOrDefault("LeasedAtUtc") == "NULL", "the lease ends and LeasedAtUtc is not set NULL");
        if (file.BaseName != "complete")
            foreach (string column in new[] { "StartedAtUtc", "LeaseSeconds", "WorkerNodeId", "LockedAtUtc" })
                Check(set.GetValueOrDefault(column) == "NULL", $"the lease ends and {column} is not set NULL");
        if (keepToken.Contains(file.BaseName))
            Check(!set.ContainsKey("LeaseToken"), "LeaseToken is set, and a repeat would not find its own success");
        else
            Check(set.GetValueOrDefault("LeaseToken") == "NULL", "the lease ends and LeaseToken is not set NULL");
    }

    static bool IsPromotion(UpdateSpecification update) =>
        SqlFile.Source(update.WhereClause).StartsWith("WHERE Status = 'Scheduled' AND DueAtUtc <= ");

    static IEnumerable<IList<TSqlStatement>> Lists(SqlFile file) =>
        file.All<TSqlBatch>().Select(b => b.Statements).Concat(file.All<StatementList>().Select(l => l.Statements));

    // How many rows a statement changed must be looked at, or a call that did nothing passes for one that did.
    static void Rows(SqlFile file, TSqlStatement statement, TSqlStatement? next, Findings findings)
    {
        UpdateDeleteSpecificationBase change = file.All<UpdateDeleteSpecificationBase>(statement)[0];
        if (!ChangesQueue(file, change) || change is UpdateSpecification update && IsPromotion(update)
            || SqlFile.Source(change.WhereClause).EndsWith("AtUtc IS NULL") && file.Name == "purge")
            return;
        bool looks = change.OutputClause != null || change.OutputIntoClause != null
                     || next != null && file.All<GlobalVariableExpression>(next).Exists(g => g.Name == "@@ROWCOUNT");
        findings.Check("rows", looks, file, statement.StartLine, "nobody looks at how many rows this changed");
    }

    // ---- expressions ----

    public static void Expressions(SqlFile file, Schema schema, Findings findings)
    {
        Findings.Rules.UnionWith(["clock", "dateadd", "isnull", "collate"]);
        string[] otherClocks = ["GETDATE", "GETUTCDATE", "SYSDATETIME", "SYSDATETIMEOFFSET"];
        foreach (TSqlBatch batch in file.Tree!.Batches)
        {
            List<FunctionCall> calls = file.All<FunctionCall>(batch);
            foreach (FunctionCall call in calls)
                findings.Check("clock", !otherClocks.Contains(call.FunctionName.Value), file, call.StartLine,
                    $"{call.FunctionName.Value}: the only clock is SYSUTCDATETIME");
            foreach (FunctionCall call in calls.Where(c => c.FunctionName.Value == "SYSUTCDATETIME").Skip(1))
                findings.Check("clock", file.Name == "schema", file, call.StartLine,
                    "the clock is read twice: times of one batch must agree");
        }
        foreach (TSqlStatement statement in file.All<TSqlStatement>())
            if (statement is DataModificationStatement or SelectStatement or SetVariableStatement
                or DeclareVariableStatement)
                Typed(file, statement, schema, findings);
        foreach (OrderByClause order in file.All<OrderByClause>())
            findings.Check("isnull", file.All<FunctionCall>(order).Count == 0, file, order.StartLine,
                "a function in ORDER BY: no index has that order");
    }

    static void Typed(SqlFile file, TSqlStatement statement, Schema schema, Findings findings)
    {
        var scope = new Scope(file, schema, statement);
        void Collations(IEnumerable<ScalarExpression?> expressions) =>
            StatementRules.Collations(file, expressions, scope, schema, findings);
        foreach (FunctionCall call in file.All<FunctionCall>(statement))
        {
            if (call.FunctionName.Value == "DATEADD")
                findings.Check("dateadd", scope.TypeOf(call.Parameters[1]) != "bigint", file, call.StartLine,
                    "DATEADD takes an int: a bigint overflows after 24.8 days of milliseconds");
            if (call.FunctionName.Value == "ISNULL")
                findings.Check("isnull", !Scope.IsText(scope.TypeOf(call.Parameters[0])), file, call.StartLine,
                    "ISNULL cuts its second text to the first one's length: COALESCE");
        }
        foreach (BooleanComparisonExpression comparison in file.All<BooleanComparisonExpression>(statement))
            Collations([comparison.FirstExpression, comparison.SecondExpression]);
        foreach (CoalesceExpression coalesce in file.All<CoalesceExpression>(statement))
            Collations(coalesce.Expressions);
        foreach (SearchedCaseExpression choice in file.All<SearchedCaseExpression>(statement))
            Collations(choice.WhenClauses.Select(w => w.ThenExpression).Append(choice.ElseExpression));
    }

    // Text of the table's column meets text of another only under one collation, named here. Keys have theirs by
    // declaration.
    static void Collations(SqlFile file, IEnumerable<ScalarExpression?> expressions, Scope scope, Schema schema,
                           Findings findings)
    {
        List<ScalarExpression> texts = expressions.OfType<ScalarExpression>()
            .Where(e => Scope.IsText(scope.TypeOf(e)) && file.All<ColumnReferenceExpression>(e).Count > 0
                        && Last(e) != "DedupKey").ToList();
        if (texts.Count > 1 && texts.SelectMany(e => file.All<ColumnReferenceExpression>(e)).Select(Last)
                .Any(schema.Columns.ContainsKey))
            findings.Check("collate", texts.Exists(e => SqlFile.Source(e).Contains(" COLLATE ")), file,
                texts[0].StartLine,
                $"{SqlFile.Source(texts[0])} and {SqlFile.Source(texts[1])} may have different collations");
    }

    // ---- what has no place in these files ----

    public static void Forbidden(SqlFile file, Findings findings)
    {
        Findings.Rules.Add("forbidden");
        void Refuse(IEnumerable<TSqlFragment> fragments, string what)
        {
            findings.Checks++;
            foreach (TSqlFragment fragment in fragments)
                findings.Check("forbidden", false, file, fragment.StartLine, what);
        }
        Refuse(file.All<MergeStatement>(), "MERGE");
        Refuse(file.All<WaitForStatement>(), "WAITFOR");
        Refuse(file.All<TSqlStatement>().Where(s => s.GetType().Name.StartsWith("CreateOrAlter")),
            "CREATE OR ALTER is not known to every engine: CREATE if missing, then ALTER");
        Refuse(file.All<IndexDefinition>(), "an index inside CREATE TABLE");
        Refuse(file.All<WithCtesAndXmlNamespaces>().Where(w => file.Name is not ("claim" or "take")), "a CTE outside claim and take");
        var defaults = file.All<DefaultConstraintDefinition>().SelectMany(d => file.All<FunctionCall>(d)).ToHashSet();
        Refuse(file.All<FunctionCall>().Where(f => f.FunctionName.Value == "NEWSEQUENTIALID" && !defaults.Contains(f)),
            "NEWSEQUENTIALID outside a DEFAULT");
        if (!file.IsScript)
            Refuse(file.All<ExecutableStringList>(), "SQL made of text");
    }
}
