// Findings.cs: what was looked at and what was found wrong.
namespace RenderqTsql;

record Finding(string File, int Line, string Rule, string What)
{
    public override string ToString() => $"{File}:{Line}: {What} [{Rule}]";
}

class Findings
{
    public readonly List<Finding> All = [];
    public int Checks;

    // Every rule's word; the self-test wants a deliberately wrong file for each.
    public static readonly HashSet<string> Rules = [];

    public void Check(string rule, bool right, SqlFile file, int line, string what)
    {
        Checks++;
        if (!right)
            Add(rule, file.Path, line, what);
    }

    public void Add(string rule, string path, int line, string what)
    {
        var finding = new Finding(path, line, rule, what);
        if (!All.Contains(finding))
            All.Add(finding);
    }
}
