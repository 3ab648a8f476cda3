// FormRules.cs: the form of a file, and whether it says what the library's contract has it say.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

static class FormRules
{
    public static void Parse(SqlFile file, Findings findings)
    {
        Findings.Rules.Add("parse");
        findings.Checks += SqlFile.Parsers().Count;
        foreach ((string version, ParseError error) in file.ParseErrors)
            findings.Add("parse", file.Path, error.Line, $"{version}: {error.Message}");
    }

    public static void Form(SqlFile file, Findings findings)
    {
        Findings.Rules.Add("form");
        void Check(bool right, int line, string what) => findings.Check("form", right, file, line, what);

        Check(file.Lines[0].StartsWith($"-- {file.Name}: "), 1,
            $"the first line does not begin with \"-- {file.Name}: \"");
        Check(file.Marker > 0, 1, "there is no line \"-- statement\"");
        for (int i = 0; i < file.Lines.Length; i++)
        {
            string line = file.Lines[i];
            Check(line.Length <= 120, i + 1, "the line is longer than 120 columns");
            // The library sends the text as it is, and its build embeds it in C.
            Check(line.All(c => c is >= ' ' and <= '~' and not '\\'), i + 1, "not plain ASCII, or a backslash or tab");
            Check(line.TrimEnd() == line, i + 1, "the line ends in a blank");
            if (!file.IsScript)
                Check(line.Trim() != "GO", i + 1, "GO in a statement's file");
        }
        if (file.IsScript)
        {
            string head = string.Join('\n', file.Lines.Skip(file.Marker + 1).Take(3));
            Check(head == "SET QUOTED_IDENTIFIER ON;\nSET ANSI_NULLS ON;\nGO", file.Marker + 2,
                "a script begins with SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; GO");
            return;
        }
        foreach (TSqlStatement statement in Declared(file).Skip(1))
            Check(false, statement.StartLine, "more than one statement above the marker");
    }

    static List<TSqlStatement> Declared(SqlFile file) =>
        file.Tree!.Batches.SelectMany(b => b.Statements).Where(s => s.StartLine - 1 < file.Marker).ToList();

    // ---- the contract ----

    public static void Files(IEnumerable<string> names, Dictionary<string, Statement> contract, Findings findings,
                             string folder)
    {
        var there = names.ToHashSet();
        foreach (Statement statement in contract.Values)
        {
            findings.Checks += 2;
            if (!there.Contains(statement.Name))
                findings.Add("files", $"{folder}/{statement.Name}.sql", 0, "the statement has no file");
            if (statement.Many && !there.Contains(statement.Name + "_many"))
                findings.Add("files", $"{folder}/{statement.Name}_many.sql", 0, "the statement has no file for many");
        }
    }

    public static void Agreement(SqlFile file, Dictionary<string, Statement> contract, Schema schema, Findings findings)
    {
        Findings.Rules.UnionWith(["files", "parameters", "columns"]);
        if (file.IsScript)
            return;
        bool known = contract.TryGetValue(file.BaseName, out Statement? statement) && (!file.IsMany || statement.Many);
        findings.Check("files", known, file, 1, "no statement of the library has this file");
        if (!known)
            return;
        Parameters(file, statement!, findings);
        if (file.IsMany)
            Items(file, statement!, findings);
        Columns(file, statement!, schema, findings);
    }

    static void Parameters(SqlFile file, Statement statement, Findings findings)
    {
        List<DeclareVariableElement> declared = Declared(file).OfType<DeclareVariableStatement>()
            .SelectMany(s => s.Declarations).ToList();
        List<Parameter> wanted = file.IsMany ? [new Parameter("items", "nvarchar(max)")] : statement.Parameters;
        string Said(IEnumerable<Parameter> list) => string.Join(", ", list.Select(p => $"@{p.Name} {p.Type}"));
        string has = Said(declared.Select(d => new Parameter(d.VariableName.Value[1..], SqlFile.Source(d.DataType))));
        findings.Check("parameters", has == Said(wanted), file, file.Marker,
            $"the parameters are {has}; the contract has {Said(wanted)}");
        foreach (DeclareVariableElement element in declared)
            findings.Check("parameters", element.Value != null, file, element.StartLine,
                $"{element.VariableName.Value} has no sample value");
    }

    // What OPENJSON (or PostgreSQL's function) reads of each item: its index, and the contract's parameters.
    static void Items(SqlFile file, Statement statement, Findings findings)
    {
        List<SchemaDeclarationItemOpenjson> read = file.All<SchemaDeclarationItemOpenjson>();
        string Path(SchemaDeclarationItemOpenjson item) => (item.Mapping as StringLiteral)?.Value ?? "no path";
        string has = string.Join(", ", read.Select(r => $"{Path(r)} {SqlFile.Source(r.ColumnDefinition.DataType)}")
            .Concat(file.All<CastCall>().Select(BabelfishRules.Field).OfType<string>()));
        string wants = string.Join(", ", statement.Parameters.Select(p => $"$.{p.Name} {p.Type}").Prepend("$.i int"));
        findings.Check("parameters", has == wants, file, file.Marker + 2,
            $"an item is {has}; the contract has {wants}");

        InsertStatement? fill = file.All<InsertStatement>().Find(i => file.All<OpenJsonTableReference>(i).Count > 0);
        if (fill == null)
            return;
        var used = file.All<ColumnReferenceExpression>()
            .Where(c => c.FirstTokenIndex < fill.FirstTokenIndex || c.FirstTokenIndex > fill.LastTokenIndex)
            .Select(c => c.MultiPartIdentifier?.Identifiers[^1].Value).ToHashSet();
        foreach (SchemaDeclarationItemOpenjson item in read)
            findings.Check("parameters", used.Contains(item.ColumnDefinition.ColumnIdentifier.Value), file,
                item.StartLine, $"{Path(item)} is read and never used");
    }

    static void Columns(SqlFile file, Statement statement, Schema schema, Findings findings)
    {
        List<string> wanted = file.IsMany ? ["int", .. statement.Columns] : statement.Columns;
        foreach ((TSqlStatement from, IList<SelectElement> elements) in Results(file))
        {
            var scope = new Scope(file, schema, from);
            findings.Check("columns", elements.Count == wanted.Count, file, from.StartLine,
                $"{elements.Count} columns come back; the contract has {wanted.Count}");
            for (int i = 0; i < Math.Min(elements.Count, wanted.Count); i++)
            {
                string type = scope.TypeOf((elements[i] as SelectScalarExpression)?.Expression);
                string hint = wanted[i] switch
                {
                    "guid" => "CONVERT(char(36), ...)", "text" => "an nvarchar", var number => number
                };
                bool right = wanted[i] switch
                {
                    "guid" => type == "char(36)", "text" => type.StartsWith("nvarchar"), var number => type == number
                };
                findings.Check("columns", right, file, elements[i].StartLine,
                    $"column {i + 1} is of type {type}; the contract has {hint}");
            }
        }
    }

    // Every place from which rows go to the client.
    static IEnumerable<(TSqlStatement, IList<SelectElement>)> Results(SqlFile file)
    {
        foreach (TSqlStatement sent in file.Sent())
        {
            foreach (SelectStatement select in file.All<SelectStatement>(sent))
                if (select.QueryExpression is QuerySpecification query
                    && query.SelectElements.All(e => e is SelectScalarExpression))
                    yield return (select, query.SelectElements);
            foreach (DataModificationStatement change in file.All<DataModificationStatement>(sent))
                foreach (OutputClause output in file.All<OutputClause>(change))
                    yield return (change, output.SelectColumns);
        }
    }
}
