// Contract.cs: what the library expects of each statement, read from what contract.c prints.
namespace RenderqTsql;

record Parameter(string Name, string Type);

record Statement(string Name, bool Many, List<Parameter> Parameters, List<string> Columns);

static class Contract
{
    public static Dictionary<string, Statement> Read(string path)
    {
        var statements = new Dictionary<string, Statement>();
        foreach (string line in File.ReadLines(path))
        {
            string[] halves = line.Split(" -> ");
            string[] words = halves[0].Split(' ');
            statements[words[0]] = new Statement(words[0], words[1] == "many",
                words[2..].Select(ReadParameter).ToList(), halves[1].Split(' ').ToList());
        }
        return statements;
    }

    // A text of n units is declared a unit longer, so that the column refuses what is too long; a cast to n would cut.
    static Parameter ReadParameter(string word)
    {
        string[] parts = word.Split(':');
        string type = parts[1] switch
        {
            "guid" => "uniqueidentifier",
            "text" => parts[2] == "0" ? "nvarchar(max)" : $"nvarchar({int.Parse(parts[2]) + 1})",
            _ => parts[1]
        };
        return new Parameter(parts[0], type);
    }
}
