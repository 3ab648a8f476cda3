// Schema.cs: the queue's table as schema.sql makes it: its columns, its indexes, and it all as plain DDL for the model.
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

class Schema
{
    public readonly Dictionary<string, string> Columns = [];    // name to type
    public readonly List<CreateIndexStatement> Indexes;
    readonly SqlFile file;

    public Schema(SqlFile file)
    {
        this.file = file;
        foreach (CreateTableStatement table in Tables())
            foreach (ColumnDefinition column in table.Definition.ColumnDefinitions)
                Columns.TryAdd(column.ColumnIdentifier.Value, SqlFile.Source(column.DataType));
        Indexes = file.All<CreateIndexStatement>();
    }

    public CreateIndexStatement? Index(string suffix) =>
        Indexes.Find(i => i.Name.Value == "VideoRenderJobs_" + suffix);

    // What stands when the script has run on an empty database.
    public IEnumerable<string> Ddl() => Tables().Select(SqlFile.Source).Concat(Indexes.Select(SqlFile.Source));

    // A column that the script also adds to an older table must be the same there.
    public static void Check(SqlFile file, Findings findings)
    {
        Findings.Rules.Add("schema");
        if (file.Name != "schema")
            return;
        var made = new Dictionary<string, string>();
        foreach (ColumnDefinition column in new Schema(file).Tables().SelectMany(t => t.Definition.ColumnDefinitions))
            made[column.ColumnIdentifier.Value] = SqlFile.Source(column);
        foreach (ColumnDefinition column in file.All<AlterTableAddTableElementStatement>()
                     .SelectMany(s => s.Definition.ColumnDefinitions))
            findings.Check("schema", made.GetValueOrDefault(column.ColumnIdentifier.Value) == SqlFile.Source(column),
                file, column.StartLine, $"{SqlFile.Source(column)} is added, and made otherwise in CREATE TABLE");
    }

    IEnumerable<CreateTableStatement> Tables() =>
        file.All<CreateTableStatement>().Where(s => SqlFile.Source(s.SchemaObjectName) == SqlFile.Table);
}
