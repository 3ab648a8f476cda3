// Program.cs: checks the T-SQL of this library without a server.
//   tsql FOLDER CONTRACT BAD BABELFISH FOREIGN
// FOLDER has the .sql files, CONTRACT is what contract.c prints, BAD has files that are wrong on purpose. BABELFISH has
// the files that stand in for those of FOLDER on Babelfish, where other rules hold; what is wrong by those is in
// BAD/babelfish. A line a finding; then how much was looked at. Exits 1 when there is a finding.
//
// A file of BAD is NAME.WHAT.sql; it stands in for NAME.sql. Its first line is `-- expect RULE: a part of the
// complaint`, the rest is the file.
//
// FOREIGN has statements of other programs on the table. Only what a server would refuse is looked for in these.
using RenderqTsql;

if (args.Length != 5)
{
    Console.Error.WriteLine("usage: tsql FOLDER CONTRACT BAD BABELFISH FOREIGN");
    return 2;
}
string folder = args[0];
Dictionary<string, Statement> contract = Contract.Read(args[1]);
string[] paths = Directory.GetFiles(folder, "*.sql").Order(StringComparer.Ordinal).ToArray();
if (paths.Length == 0 || !File.Exists(Path.Combine(folder, "schema.sql")))
{
    Console.Error.WriteLine($"tsql: {folder} has no schema.sql");
    return 2;
}

var findings = new Findings();
var spellings = new Dictionary<string, string>();
var schemaFile = new SqlFile(Path.Combine(folder, "schema.sql"), "schema");
if (schemaFile.ParseErrors.Count > 0)
{
    FormRules.Parse(schemaFile, findings);
    return Report(1);
}
var schema = new Schema(schemaFile);
var model = new Model();
NameRules.Case(schemaFile, spellings, new Findings());      // the table's spelling is the one that counts
List<SqlFile> files = paths.Select(p => new SqlFile(p, SqlFile.NameOf(p))).ToList();
foreach (SqlFile file in files)
    Check(file, findings);
FormRules.Files(files.Select(f => f.Name), contract, findings, folder);
List<SqlFile> there = Directory.GetFiles(args[3], "*.sql").Order(StringComparer.Ordinal)
    .Select(p => new SqlFile(p, SqlFile.NameOf(p))).ToList();
foreach (SqlFile file in there)
    CheckBabelfish(file, findings);
BabelfishRules.Instead(files, there, findings);
List<(string Path, Findings Found)> wrong = CheckWrong(args[2], Check);
wrong.AddRange(CheckWrong(Path.Combine(args[2], "babelfish"), CheckBabelfish));
model.Check(schema);
SelfTest(wrong, args[2]);
return Report(files.Count + there.Count + CheckForeign(args[4]));

int CheckForeign(string foreign)
{
    string[] theirs = Directory.GetFiles(foreign, "*.sql");
    foreach (string path in theirs.Order(StringComparer.Ordinal))
    {
        var file = new SqlFile(path, SqlFile.NameOf(path), spelled: "dbo.VideoRenderJobs");
        FormRules.Parse(file, findings);
        if (file.ParseErrors.Count > 0 || file.Tree == null)
            continue;
        NameRules.Variables(file, findings);
        NameRules.Columns(file, schema, findings);
        NameRules.States(file, findings);
    }
    return theirs.Length;
}

void Check(SqlFile file, Findings into)
{
    FormRules.Parse(file, into);
    if (file.ParseErrors.Count > 0 || file.Tree == null)
        return;
    FormRules.Form(file, into);
    Schema.Check(file, into);
    FormRules.Agreement(file, contract, schema, into);
    NameRules.Variables(file, into);
    NameRules.Columns(file, schema, into);
    NameRules.Case(file, spellings, into);
    NameRules.TableName(file, into);
    NameRules.States(file, into);
    StatementRules.Hints(file, into);
    StatementRules.Changes(file, into);
    StatementRules.Expressions(file, schema, into);
    StatementRules.Forbidden(file, into);
    ClaimRules.Claim(file, schema, into);
    model.Add(file, into);
}

// No model is made of these: it would not know PostgreSQL's functions. The servers differ in what locks do, so hints are
// out of place, and in the claim.
void CheckBabelfish(SqlFile file, Findings into)
{
    FormRules.Parse(file, into);
    if (file.ParseErrors.Count > 0 || file.Tree == null)
        return;
    FormRules.Form(file, into);
    Schema.Check(file, into);
    if (file.Name != BabelfishRules.Question)
        FormRules.Agreement(file, contract, schema, into);
    NameRules.Variables(file, into);
    NameRules.Columns(file, schema, into);
    NameRules.Case(file, spellings, into, BabelfishRules.Functions);
    NameRules.TableName(file, into);
    NameRules.States(file, into);
    StatementRules.Changes(file, into);
    StatementRules.Expressions(file, schema, into);
    StatementRules.Forbidden(file, into);
    BabelfishRules.Beside(file, files, into);
    BabelfishRules.Unable(file, into);
    BabelfishRules.Claim(file, schema, into);
}

List<(string, Findings)> CheckWrong(string bad, Action<SqlFile, Findings> check)
{
    var all = new List<(string, Findings)>();
    foreach (string path in Directory.GetFiles(bad, "*.sql").Order(StringComparer.Ordinal))
    {
        var found = new Findings();
        check(new SqlFile(path, SqlFile.NameOf(path).Split('.')[0], skipLines: 1), found);
        all.Add((path, found));
    }
    return all;
}

// Each wrong file must bring its complaint, and each rule must have a wrong file: a rule that finds nothing looks like
// one that is kept.
void SelfTest(List<(string Path, Findings Found)> wrong, string bad)
{
    var broken = new HashSet<string>();
    foreach ((string path, Findings found) in wrong)
    {
        string expected = File.ReadLines(path).First();
        findings.Checks++;
        Finding? match = found.All.Find(f => expected.StartsWith($"-- expect {f.Rule}: ")
                                             && f.What.Contains(expected.Split(": ", 2)[1]));
        if (match != null)
            broken.Add(match.Rule);
        else
            findings.Add("self-test", path, 1, $"{expected[3..]} was not found, but: "
                         + string.Join(" | ", found.All.Select(f => $"{f.Rule}: {f.What}")));
    }
    foreach (string rule in Findings.Rules.Except(broken))
        findings.Add("self-test", bad, 0, $"no file is wrong by the rule {rule}");
}

int Report(int count)
{
    foreach (Finding finding in findings.All)
        Console.WriteLine(finding);
    Console.WriteLine($"{count} files, {findings.Checks} checks, {findings.All.Count} findings");
    return findings.All.Count > 0 ? 1 : 0;
}
