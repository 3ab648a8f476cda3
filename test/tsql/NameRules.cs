// NameRules.cs: names and literals: that they are there, are used, and are written in one way.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

static class NameRules
{
    static readonly string[] states = ["Scheduled", "Queued", "Processing", "Completed", "DeadLetter", "Cancelled"];

    // ---- variables ----

    public static void Variables(SqlFile file, Findings findings)
    {
        Findings.Rules.UnionWith(["declared", "used"]);
        foreach (TSqlBatch batch in file.Tree!.Batches)
        {
            var declared = new Dictionary<string, int>();
            foreach (DeclareVariableElement element in file.All<DeclareVariableElement>(batch))
                declared.TryAdd(element.VariableName.Value, element.StartLine);
            foreach (DeclareTableVariableBody body in file.All<DeclareTableVariableBody>(batch))
                declared.TryAdd(body.VariableName.Value, body.StartLine);
            List<VariableReference> references = References(file, batch);
            foreach (VariableReference reference in references)
                findings.Check("declared", declared.ContainsKey(reference.Name), file, reference.StartLine,
                    $"{reference.Name} is not declared in this batch");
            HashSet<VariableReference> written = Written(file, batch);
            var read = references.Where(r => !written.Contains(r)).Select(r => r.Name).ToHashSet();
            foreach ((string name, int line) in declared)
                findings.Check("used", read.Contains(name), file, line, $"{name} is declared and never read");
        }
    }

    // The names of a procedure's parameters in EXEC are not ours.
    static List<VariableReference> References(SqlFile file, TSqlFragment batch)
    {
        var foreign = file.All<ExecuteParameter>(batch).Select(p => p.Variable).Where(v => v != null).ToHashSet();
        return file.All<VariableReference>(batch).Where(v => !foreign.Contains(v)).ToList();
    }

    static HashSet<VariableReference> Written(SqlFile file, TSqlFragment batch)
    {
        var written = new HashSet<VariableReference>();
        written.UnionWith(file.All<SetVariableStatement>(batch).Select(s => s.Variable));
        written.UnionWith(file.All<SelectSetVariable>(batch).Select(s => s.Variable));
        written.UnionWith(file.All<ExecuteSpecification>(batch).Select(s => s.Variable).Where(v => v != null));
        written.UnionWith(file.All<OutputIntoClause>(batch).Select(o => o.IntoTable).OfType<VariableTableReference>()
            .Select(t => t.Variable));
        written.UnionWith(file.All<InsertSpecification>(batch).Select(i => i.Target).OfType<VariableTableReference>()
            .Select(t => t.Variable));
        return written;
    }

    // ---- columns ----

    // Expressions are asked statement by statement: in a block or a loop each part for itself.
    static IEnumerable<TSqlFragment> Units(SqlFile file)
    {
        foreach (TSqlStatement statement in file.All<TSqlStatement>())
            switch (statement)
            {
                case IfStatement one: yield return one.Predicate; break;
                case WhileStatement loop: yield return loop.Predicate; break;
                case SelectStatement or DataModificationStatement or SetVariableStatement or DeclareVariableStatement:
                    yield return statement;
                    break;
            }
    }

    public static void Columns(SqlFile file, Schema schema, Findings findings)
    {
        Findings.Rules.UnionWith(["resolves", "cte"]);
        foreach (TSqlFragment unit in Units(file))
        {
            var scope = new Scope(file, schema, unit);
            var parts = file.All<FunctionCall>(unit).Where(f => f.FunctionName.Value.StartsWith("DATE"))
                .Select(f => f.Parameters[0]).ToHashSet();
            foreach (ColumnReferenceExpression column in file.All<ColumnReferenceExpression>(unit))
                if (column.MultiPartIdentifier != null && !parts.Contains(column))
                    findings.Check("resolves", scope.Resolve(column) != "", file, column.StartLine,
                        $"there is no column {SqlFile.Source(column)} here");
        }
        foreach (UpdateStatement update in file.All<UpdateStatement>())
            Through(file, update, findings);
    }

    // Through a CTE, SET and inserted reach only what its select list has.
    static void Through(SqlFile file, UpdateStatement update, Findings findings)
    {
        string? target = (update.UpdateSpecification.Target as NamedTableReference)?.SchemaObject.BaseIdentifier.Value;
        CommonTableExpression? cte = update.WithCtesAndXmlNamespaces?.CommonTableExpressions
            .FirstOrDefault(c => c.ExpressionName.Value == target);
        if (cte == null)
            return;
        var has = Scope.CteColumns(cte).ToHashSet();
        IEnumerable<ColumnReferenceExpression> set = update.UpdateSpecification.SetClauses.OfType<AssignmentSetClause>()
            .Select(s => s.Column).Where(c => c != null);
        IEnumerable<ColumnReferenceExpression> put = file.All<ColumnReferenceExpression>(update)
            .Where(c => c.MultiPartIdentifier?.Identifiers is [{ Value: "inserted" or "deleted" }, _]);
        foreach (ColumnReferenceExpression column in set.Concat(put))
            findings.Check("cte", has.Contains(column.MultiPartIdentifier.Identifiers[^1].Value), file,
                column.StartLine, $"{SqlFile.Source(column)} is not in the select list of {target}");
    }

    // ---- spelling ----

    // On a case-sensitive server two spellings are two names. `seen` goes from file to file.
    public static void Case(SqlFile file, Dictionary<string, string> seen, Findings findings,
                            HashSet<string>? lowerCase = null)
    {
        Findings.Rules.Add("case");
        void Check(string name, int line)
        {
            string key = name.ToLowerInvariant();
            seen.TryAdd(key, name);
            findings.Check("case", seen[key] == name, file, line, $"{name} is spelled {seen[key]} elsewhere");
        }
        // A function is another thing than a column of its name.
        var functions = file.All<FunctionCall>().Select(f => f.FunctionName).ToHashSet();
        foreach (Identifier identifier in file.All<Identifier>())
            if (functions.Contains(identifier))
                findings.Check("case", identifier.Value == identifier.Value.ToUpperInvariant()
                                       || lowerCase?.Contains(identifier.Value) == true, file,
                    identifier.StartLine, $"the function {identifier.Value} is not in upper case");
            else
                Check(identifier.Value, identifier.StartLine);
        foreach (VariableReference variable in file.All<VariableReference>())
            Check(variable.Name, variable.StartLine);
        foreach (SqlDataTypeReference type in file.All<SqlDataTypeReference>())
        {
            string text = SqlFile.Source(type);
            findings.Check("case", text == text.ToLowerInvariant(), file, type.StartLine,
                $"{text} is not in lower case");
        }
        foreach (TSqlParserToken token in file.Tree!.ScriptTokenStream)
            if (token.IsKeyword())
                findings.Check("case", token.Text == token.Text.ToUpperInvariant(), file, token.Line,
                    $"{token.Text} is not in upper case");
    }

    // The library puts another table's name in by replacing text, so ours has one form.
    public static void TableName(SqlFile file, Findings findings)
    {
        Findings.Rules.UnionWith(["name", "literal"]);
        const string ours = "VideoRenderJobs";
        foreach (Identifier identifier in file.All<Identifier>())
            if (identifier.Value.Contains(ours, StringComparison.OrdinalIgnoreCase))
                findings.Check("name", identifier.QuoteType == QuoteType.SquareBracket
                                       && (identifier.Value == ours || identifier.Value.StartsWith(ours + "_")),
                    file, identifier.StartLine, $"{identifier.Value} is not in the form [{ours}] or [{ours}_...]");
        foreach (SchemaObjectName name in file.All<SchemaObjectName>())
            if (name.BaseIdentifier.Value == ours || name.BaseIdentifier.Value == ours + "_Watchdog")
                findings.Check("name", SqlFile.Source(name) == $"[dbo].[{name.BaseIdentifier.Value}]", file,
                    name.StartLine, $"{SqlFile.Source(name)} is not in the form [dbo].[{name.BaseIdentifier.Value}]");
        foreach (StringLiteral literal in file.All<StringLiteral>())
            if (literal.Value.Contains(ours, StringComparison.OrdinalIgnoreCase))
                findings.Check("literal", literal.IsNational && IsName(literal.Value, ours), file, literal.StartLine,
                    "a name of the table in a literal must be all of it, as N'[dbo].[...]' or N'[..._...]'");
        if (file.IsScript)
            return;
        var known = file.All<CommonTableExpression>().Select(c => c.ExpressionName.Value)
            .Concat(file.All<TableReferenceWithAlias>().Select(t => t.Alias?.Value)).ToHashSet();
        foreach (NamedTableReference table in file.All<NamedTableReference>())
        {
            string text = SqlFile.Source(table.SchemaObject);
            findings.Check("name", text == SqlFile.Table || text.StartsWith("sys.") || known.Contains(text), file,
                table.StartLine, $"{text} is not the queue's table");
        }
    }

    static bool IsName(string text, string ours) =>
        text == $"[dbo].[{ours}]"
        || text.EndsWith(']') && (text.StartsWith($"[dbo].[{ours}_") || text.StartsWith($"[{ours}_"))
           && text.Count(c => c == '[') <= 2;

    // A filter of an index is met only by the same literal, and a national one would convert the column.
    public static void States(SqlFile file, Findings findings)
    {
        Findings.Rules.Add("state");
        foreach (StringLiteral literal in file.All<StringLiteral>())
        {
            string? state = states.FirstOrDefault(s => s.Equals(literal.Value, StringComparison.OrdinalIgnoreCase));
            if (state != null)
                findings.Check("state", state == literal.Value, file, literal.StartLine,
                    $"the state {literal.Value} is spelled {state}");
        }
        foreach (BooleanComparisonExpression comparison in file.All<BooleanComparisonExpression>())
            if (IsStatus(comparison.FirstExpression))
                State(file, comparison.SecondExpression, findings);
        foreach (InPredicate among in file.All<InPredicate>())
            if (IsStatus(among.Expression))
                foreach (ScalarExpression value in among.Values)
                    State(file, value, findings);
    }

    static bool IsStatus(ScalarExpression expression) =>
        expression is ColumnReferenceExpression { MultiPartIdentifier.Identifiers: [.., { Value: "Status" }] };

    static void State(SqlFile file, ScalarExpression value, Findings findings)
    {
        bool filter = file.Name == "list" && value is CastCall;     // an operator's filter; planned anew each time
        bool state = value is StringLiteral { IsNational: false } literal && states.Contains(literal.Value);
        findings.Check("state", filter || state, file, value.StartLine,
            $"Status is compared with {SqlFile.Source(value)}, which is no literal state");
    }
}
