package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// A report is known by its name: repository and number, a ticket of Kafka's, or an article.
	reportID   = regexp.MustCompile(`KAFKA-\d+|[A-Za-z0-9][\w.-]*/[\w.-]+#\d+|Jepsen on [A-Z][A-Za-z]+ [\d.]*\d|WarpStream on [a-z]+ [a-z]+`)
	link       = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)
	testName   = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)\\w+|[A-Z]\\d+)`")
	brokenLine = regexp.MustCompile(`\n\s*// `)
	caseID     = regexp.MustCompile(`\bid: "([A-Z]\d+)"`)
)

// reportRow is a line of the table.
type reportRow struct {
	reports []string // by name
	links   []string
	tests   []string // "directory.TestName", or "conformance.E7" of a case
}

func readReports(t *testing.T) (rows []reportRow) {
	t.Helper()
	text, err := os.ReadFile("reports.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		require.Len(t, cells, 3, line)
		var row reportRow
		for _, l := range link.FindAllStringSubmatch(cells[0], -1) {
			row.reports, row.links = append(row.reports, l[1]), append(row.links, l[2])
		}
		for _, name := range testName.FindAllStringSubmatch(cells[2], -1) {
			row.tests = append(row.tests, name[1]+"."+name[2])
		}
		rows = append(rows, row)
	}
	require.NotEmpty(t, rows)
	return rows
}

// testsOfTheTree returns the source of every test, its comment included, by "directory.TestName", and of every case of the
// suite by "conformance.E7"; and the files in which each report is named by a test.
func testsOfTheTree(t *testing.T) (sources map[string]string, named map[string][]string) {
	t.Helper()
	sources, named = map[string]string{}, map[string][]string{}
	root := ".."
	files := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		dir := path.Dir(relative)
		isCase := dir == "conformance" && strings.HasPrefix(entry.Name(), "cases_")
		if strings.HasSuffix(name, "_test.go") || isCase {
			return readTests(files, name, relative, isCase, sources, named)
		}
		return nil
	}))
	return sources, named
}

// reportsIn returns the names of reports in a source, those of which a comment breaks the line too.
func reportsIn(source string) []string {
	return reportID.FindAllString(brokenLine.ReplaceAllString(source, " "), -1)
}

func readTests(files *token.FileSet, name, relative string, isCase bool, sources map[string]string, named map[string][]string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for _, id := range reportsIn(string(text)) {
		if !slices.Contains(named[id], relative) {
			named[id] = append(named[id], relative)
		}
	}
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	of := func(from, to token.Pos) string {
		return string(text[files.Position(from).Offset:files.Position(to).Offset])
	}
	dir := path.Dir(relative)
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			from := node.Pos()
			if node.Doc != nil {
				from = node.Doc.Pos()
			}
			if node.Recv == nil {
				sources[dir+"."+node.Name.Name] = of(from, node.End())
			}
		case *ast.CompositeLit:
			if source := of(node.Pos(), node.End()); isCase && node.Type == nil {
				if id := caseID.FindStringSubmatch(source); id != nil {
					sources[dir+"."+id[1]] += source
				}
			}
		}
		return true
	})
	return nil
}

// Every test that the table names is there and carries the name of one of the line's reports, and each report of the line
// is carried by one of them. A link leads to where its text says.
func TestReportsHaveTheirTests(t *testing.T) {
	sources, _ := testsOfTheTree(t)
	seen := map[string]bool{}
	for _, row := range readReports(t) {
		require.NotEmpty(t, row.tests, "%v: no test", row.reports)
		carried := map[string]bool{}
		for _, name := range row.tests {
			source, found := sources[name]
			if !assert.True(t, found, "%v: there is no test %s", row.reports, name) {
				continue
			}
			ids := reportsIn(source)
			mine := slices.ContainsFunc(row.reports, func(id string) bool { return slices.Contains(ids, id) })
			assert.True(t, mine, "%s carries none of %v", name, row.reports)
			for _, id := range ids {
				carried[id] = true
			}
		}
		for i, id := range row.reports {
			assert.Equal(t, id, reportID.FindString(id), "not the name of a report")
			assert.False(t, seen[id], "%s stands in two lines", id)
			seen[id] = true
			assert.True(t, carried[id], "%s: none of its tests carries the name", id)
			switch repository, number, found := strings.Cut(id, "#"); {
			case found:
				assert.Regexp(t, "^https://github.com/"+regexp.QuoteMeta(repository)+"/(issues|pull)/"+number+"$", row.links[i])
			case strings.HasPrefix(id, "KAFKA-"):
				assert.Equal(t, "https://issues.apache.org/jira/browse/"+id, row.links[i])
			}
		}
	}
}

// No report that a test names is missing in the table.
func TestReportsOfTestsAreInTheTable(t *testing.T) {
	_, named := testsOfTheTree(t)
	listed := map[string]bool{}
	for _, row := range readReports(t) {
		for _, id := range row.reports {
			listed[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		assert.True(t, listed[id], "%s is named in %v", id, named[id])
	}
}

// grafana/tempo#3141, llvm/llvm-zorg#518: for each cloud an operator is told what in a bucket keeps deleted segments, and for
// how long, and is given the command that turns it off.
func TestReportsOfBucketsThatKeepWhatIsDeleted(t *testing.T) {
	text, err := os.ReadFile("backends.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for of, words := range map[string][]string{
		"everywhere": {"Versioning, soft delete", "is kept and charged"},
		"Amazon S3":  {"versioning", "expiry of noncurrent versions"},
		"`gcs`":      {"soft delete", "for 7 days", "--clear-soft-delete --no-versioning"},
		"`azure`":    {"soft delete", "versioning", "--enable-delete-retention false --enable-versioning false"},
	} {
		found := false
		for title, body := range sections {
			if strings.Contains(title, of) {
				found = true
				for _, word := range words {
					assert.Contains(t, body, word, title)
				}
			}
		}
		assert.True(t, found, of)
	}
}
