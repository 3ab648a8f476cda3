// Scope.cs: what names mean in one statement of a file: its variables, its tables, and the types of expressions.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

class Scope
{
    readonly SqlFile file;
    readonly Dictionary<string, string> variables = [];
    readonly Dictionary<string, Dictionary<string, string>> tables = [];     // of the file: the queue, @variables
    readonly Dictionary<string, Dictionary<string, string>?> sources = [];   // of this statement; null: not known here

    public Scope(SqlFile file, Schema schema, TSqlFragment statement)
    {
        this.file = file;
        tables[SqlFile.Table] = schema.Columns;
        foreach (DeclareVariableElement declared in file.All<DeclareVariableElement>())
            variables[declared.VariableName.Value] = SqlFile.Source(declared.DataType);
        foreach (DeclareTableVariableBody body in file.All<DeclareTableVariableBody>())
            tables[body.VariableName.Value] = body.Definition.ColumnDefinitions.ToDictionary(
                c => c.ColumnIdentifier.Value, c => SqlFile.Source(c.DataType));
        foreach (CommonTableExpression cte in file.All<CommonTableExpression>(statement))
            sources[cte.ExpressionName.Value] = CteColumns(cte).Distinct().ToDictionary(
                name => name, name => schema.Columns.GetValueOrDefault(name, "?"));
        foreach (TableReference reference in file.All<TableReference>(statement))
            AddSource(reference);
        foreach (DataModificationSpecification change in file.All<DataModificationSpecification>(statement))
            sources["inserted"] = sources["deleted"] = ColumnsOf(change.Target);
    }

    public static IEnumerable<string> CteColumns(CommonTableExpression cte) =>
        (cte.QueryExpression as QuerySpecification)?.SelectElements.OfType<SelectScalarExpression>()
            .Select(e => e.ColumnName?.Value
                         ?? (e.Expression as ColumnReferenceExpression)?.MultiPartIdentifier.Identifiers[^1].Value
                         ?? "?")
        ?? [];

    void AddSource(TableReference reference)
    {
        switch (reference)
        {
            case NamedTableReference named:
                string name = named.SchemaObject.BaseIdentifier.Value;
                if (named.Alias != null)
                    sources[named.Alias.Value] = ColumnsOf(named);
                else if (!sources.ContainsKey(name))
                    sources[name] = ColumnsOf(named);
                break;
            case VariableTableReference variable:
                sources[variable.Alias?.Value ?? variable.Variable.Name] = ColumnsOf(variable);
                break;
            case OpenJsonTableReference json:
                sources[json.Alias?.Value ?? "OPENJSON"] = json.SchemaDeclarationItems.ToDictionary(
                    i => i.ColumnDefinition.ColumnIdentifier.Value, i => SqlFile.Source(i.ColumnDefinition.DataType));
                break;
            case TableReferenceWithAlias { Alias: not null } other:
                sources[other.Alias.Value] = null;
                break;
        }
    }

    // The columns of a table, a table variable, or (as the target of a change) of what an alias or CTE stands for.
    Dictionary<string, string>? ColumnsOf(TableReference reference)
    {
        if (reference is VariableTableReference variable)
            return tables.GetValueOrDefault(variable.Variable.Name);
        if (reference is not NamedTableReference named)
            return null;
        return tables.GetValueOrDefault(SqlFile.Source(named.SchemaObject))
               ?? sources.GetValueOrDefault(named.SchemaObject.BaseIdentifier.Value);
    }

    // The column's type; "" when nothing here has such a column, "?" when that cannot be known.
    public string Resolve(ColumnReferenceExpression column)
    {
        if (column.MultiPartIdentifier == null)
            return "?";
        IList<Identifier> names = column.MultiPartIdentifier.Identifiers;
        string name = names[^1].Value;
        IEnumerable<Dictionary<string, string>?> among = sources.Values;
        if (names.Count > 1)
        {
            if (!sources.TryGetValue(names[^2].Value, out Dictionary<string, string>? one))
                return "";
            among = [one];
        }
        string? found = among.Where(s => s != null).Select(s => s!.GetValueOrDefault(name))
            .FirstOrDefault(t => t != null);
        return found ?? (among.Contains(null) ? "?" : "");
    }

    public string TypeOf(ScalarExpression? expression)
    {
        switch (expression)
        {
            case null or NullLiteral: return "null";
            case ParenthesisExpression e: return TypeOf(e.Expression);
            case UnaryExpression e: return TypeOf(e.Expression);
            case IntegerLiteral: return "int";
            case StringLiteral e: return e.IsNational ? "nvarchar" : "varchar";
            case VariableReference e: return variables.GetValueOrDefault(e.Name, "?");
            case GlobalVariableExpression: return "int";
            case CastCall e: return SqlFile.Source(e.DataType);
            case ConvertCall e: return SqlFile.Source(e.DataType);
            case ColumnReferenceExpression e: return Resolve(e);
            case CoalesceExpression e: return FirstOf(e.Expressions);
            case SearchedCaseExpression e:
                return FirstOf(e.WhenClauses.Select(w => w.ThenExpression).Append(e.ElseExpression));
            case LeftFunctionCall e: return TypeOf(e.Parameters[0]);
            case BinaryExpression e:
                string left = TypeOf(e.FirstExpression), right = TypeOf(e.SecondExpression);
                return right == "bigint" || left is "null" or "?" ? right : left;
            case ScalarSubquery { QueryExpression: QuerySpecification
                                  { SelectElements: [SelectScalarExpression only] } }:
                return TypeOf(only.Expression);
            case FunctionCall e:
                return e.FunctionName.Value switch
                {
                    "COUNT_BIG" or "DATEDIFF_BIG" or "ROW_NUMBER" => "bigint",
                    "COUNT" or "CHECKSUM" or "UNICODE" => "int",
                    "ISNULL" or "SUM" or "MIN" or "MAX" or "POWER" => TypeOf(e.Parameters[0]),
                    _ => "?"
                };
            default: return "?";
        }
    }

    string FirstOf(IEnumerable<ScalarExpression?> expressions) =>
        expressions.Select(TypeOf).FirstOrDefault(t => t != "null") ?? "null";

    public static bool IsText(string type) => type.Contains("char");
}
