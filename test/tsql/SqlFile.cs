// SqlFile.cs: a .sql file: its text, its syntax tree, and questions to the tree that several rules ask.
using System.Text;
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace RenderqTsql;

class SqlFile
{
    public const string Table = "[dbo].[VideoRenderJobs]";

    // Scripts are run by people, or batch by batch by the library; every other file is a statement's.
    static readonly string[] scripts = ["schema", "watchdog", "agent_job", "grants"];

    public readonly string Path, Name, Text;
    public readonly string[] Lines;
    public readonly TSqlScript? Tree;           // of the newest version
    public readonly List<(string Version, ParseError Error)> ParseErrors = [];
    public readonly int Marker;                 // index of the line "-- statement", -1 without one

    public bool IsScript => scripts.Contains(Name);
    public bool IsMany => Name.EndsWith("_many");
    public string BaseName => IsMany ? Name[..^"_many".Length] : Name;

    // Lines that a test's file has above the real beginning are cut off. Other programs write the table as spelled.
    public SqlFile(string path, string name, int skipLines = 0, string spelled = Table)
    {
        Path = path;
        Name = name;
        Lines = File.ReadAllText(path).Replace(spelled, Table).Split('\n')[skipLines..];
        Text = string.Join('\n', Lines);
        Marker = Array.IndexOf(Lines, "-- statement");
        foreach ((string version, TSqlParser parser) in Parsers())
        {
            TSqlFragment tree = parser.Parse(new StringReader(Text), out IList<ParseError> errors);
            foreach (ParseError error in errors)
                ParseErrors.Add((version, error));
            Tree = tree as TSqlScript;
        }
    }

    public static string NameOf(string path) => System.IO.Path.GetFileNameWithoutExtension(path);

    // SQL Server 2016 speaks 130; the list ends with the newest that the package knows.
    public static List<(string Version, TSqlParser Parser)> Parsers() =>
        typeof(TSqlParser).Assembly.GetTypes()
            .Where(t => t.IsSubclassOf(typeof(TSqlParser)) && !t.IsAbstract
                        && int.TryParse(t.Name.Replace("TSql", "").Replace("Parser", ""), out int n) && n >= 130)
            .OrderBy(t => t.Name)
            .Select(t => (t.Name["TSql".Length..^"Parser".Length],
                          (TSqlParser)Activator.CreateInstance(t, args: [true])!))
            .ToList();

    // The statements behind the marker: what the library sends.
    public List<TSqlStatement> Sent() =>
        Tree!.Batches.SelectMany(b => b.Statements).Where(s => s.StartLine - 1 > Marker).ToList();

    public List<T> All<T>(TSqlFragment? within = null) where T : TSqlFragment
    {
        var finder = new Finder<T>();
        (within ?? Tree!).Accept(finder);
        return finder.Found;
    }

    // The source text of a fragment in one line, without comments.
    public static string Source(TSqlFragment? fragment)
    {
        if (fragment == null || fragment.FirstTokenIndex < 0)
            return "";
        var text = new StringBuilder();
        for (int i = fragment.FirstTokenIndex; i <= fragment.LastTokenIndex; i++)
        {
            TSqlParserToken token = fragment.ScriptTokenStream[i];
            if (token.TokenType is TSqlTokenType.WhiteSpace or TSqlTokenType.SingleLineComment
                or TSqlTokenType.MultilineComment)
            {
                if (text.Length > 0 && text[^1] != ' ')
                    text.Append(' ');
            }
            else
                text.Append(token.Text);
        }
        return text.ToString().Trim();
    }

    sealed class Finder<T> : TSqlFragmentVisitor where T : TSqlFragment
    {
        public readonly List<T> Found = [];

        public override void Visit(TSqlFragment fragment)
        {
            if (fragment is T found)
                Found.Add(found);
        }
    }
}
