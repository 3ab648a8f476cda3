// Model.cs: the schema built as a database model, and every statement as a procedure in it: names that are not there,
// or not in this spelling, come out as the server would say them.
using System.Text.RegularExpressions;
using Microsoft.SqlServer.Dac.Model;
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

class Model
{
    readonly List<(SqlFile File, Findings Into)> files = [];

    public void Add(SqlFile file, Findings into)
    {
        // One undeclared variable would end the whole model.
        if (AsProcedure(file, "") != null && !into.All.Exists(f => f.Rule == "declared"))
            files.Add((file, into));
    }

    public void Check(Schema schema)
    {
        Findings.Rules.Add("model");
        // 2016 is the oldest that we serve. Binary: a name in another case is another name.
        var options = new TSqlModelOptions { Collation = "Latin1_General_100_BIN2" };
        using var model = new TSqlModel(SqlServerVersion.Sql130, options);
        foreach (string ddl in schema.Ddl())
            model.AddObjects(ddl);
        for (int i = 0; i < files.Count; i++)
        {
            files[i].Into.Checks++;
            try
            {
                model.AddObjects(AsProcedure(files[i].File, $"[dbo].[file {i}]"));
            }
            catch (DacModelException e)
            {
                files[i].Into.Add("model", files[i].File.Path, 1, e.Message.ReplaceLineEndings(" "));
            }
        }
        foreach (DacModelMessage message in model.Validate())
        {
            Match match = Regex.Match(message.Message, @"^Error validating element \[dbo\]\.\[file (\d+)\]: (.*)$");
            if (!match.Success)
                files[0].Into.Add("model", files[0].File.Path, 1, message.Message);
            else if (!IsSystems(message.Message))
            {
                (SqlFile file, Findings into) = files[int.Parse(match.Groups[1].Value)];
                string said = Regex.Replace(match.Groups[2].Value, @"\[dbo\]\.\[file \d+\]", file.Name);
                into.Add("model", file.Path, 1, said);
            }
        }
    }

    // A statement's file with its parameters, or the procedure that a script makes; null: nothing of the kind.
    static string? AsProcedure(SqlFile file, string name)
    {
        if (!file.IsScript)
        {
            string parameters = string.Join(", ", file.Tree!.Batches[0].Statements.OfType<DeclareVariableStatement>()
                .Where(s => s.StartLine - 1 < file.Marker).SelectMany(s => s.Declarations)
                .Select(d => $"{d.VariableName.Value} {SqlFile.Source(d.DataType)}"));
            string body = string.Join('\n', file.Lines[(file.Marker + 1)..]);
            return $"CREATE PROCEDURE {name} {parameters} AS BEGIN\n{body}\nEND";
        }
        AlterProcedureStatement? alter = file.All<AlterProcedureStatement>().FirstOrDefault();
        if (alter == null)
            return null;
        int nameEnds = alter.ProcedureReference.LastTokenIndex;
        return "CREATE PROCEDURE " + name + string.Concat(alter.ScriptTokenStream.Skip(nameEnds + 1)
            .Take(alter.LastTokenIndex - nameEnds).Select(t => t.Text));
    }

    // The model does not have the server's own views and procedures.
    static bool IsSystems(string message) =>
        message.Contains("[sys].[") || message.Contains("[dbo].[sp_getapplock]");
}
