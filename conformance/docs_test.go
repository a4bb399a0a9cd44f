package conformance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
)

// columns are the backends of the documentation, in order, with what they are. One without a file of results has no
// column yet.
var columns = []struct{ name, is string }{
	{"memory", "[`walstorage/objectstore/memory`](../walstorage/objectstore/memory), the reference, in memory"},
	{"local", "[`local`](../local): files on a local disk; crashes over `conformance.CrashFS`"},
	{"custombackend", "[`examples/custombackend`](../examples/custombackend): a bbolt database"},
	{"s3", "[`s3`](../s3) on a server of our own in the test's process"},
	{"versitygw", "[`s3`](../s3) on versitygw, started by `make integration`"},
	{"seaweedfs", "[`s3`](../s3) on SeaweedFS, started by `make integration SERVERS=seaweedfs`"},
	{"gcs", "[`gcs`](../gcs) on a server of our own in the test's process"},
	{"fake-gcs-server", "[`gcs`](../gcs) on fake-gcs-server, started by `make integration`"},
	{"azure", "[`azure`](../azure) on a server of our own in the test's process"},
	{"azurite", "[`azure`](../azure) on Azurite, started by `make integration`"},
	{"memlog", "[`metadata/memlog`](../metadata/memlog), the reference of metadata logs, in memory"},
	{"filelog", "[`metadata/filelog`](../metadata/filelog): a metadata log in files"},
	{"kfake", "[`metadata/kafkalog`](../metadata/kafkalog) on kfake, a Kafka cluster in the test's process"},
	{"kafka", "[`metadata/kafkalog`](../metadata/kafkalog) on Apache Kafka, one broker and three, started by `make integration`"},
}

// docs/conformance.md is made of the cases and of conformance/results. `go test ./conformance -run TestCaseTable -update`
// writes it.
func TestCaseTableInDocs(t *testing.T) {
	results := make(map[string][]conformance.Result)
	files, err := filepath.Glob("results/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		require.True(t, slices.ContainsFunc(columns, func(c struct{ name, is string }) bool { return c.name == name }),
			"%s has no column: what is it?", file)
		results[name], err = caseresults.Load(name)
		require.NoError(t, err)
	}
	require.NotEmpty(t, results)

	const path = "../docs/conformance.md"
	want := renderDocs(results)
	if conformance.Update() {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "%s is not the generated table: run this test with -update", path)
}

// A case that is skipped shows the number of its reason, one that has no result a dash, and a backend without results no
// column.
func TestRenderDocs(t *testing.T) {
	text := renderDocs(map[string][]conformance.Result{
		"memory": {
			{Suite: "Run", ID: "A1", Outcome: conformance.Passed},
			{Suite: "Run", ID: "A2", Outcome: conformance.Skipped, Reason: "no | configuration"},
			{Suite: "Run", ID: "A3", Outcome: conformance.Skipped, Reason: "no bucket"},
			{Suite: "Run", ID: "A4", Outcome: conformance.Skipped, Reason: "no bucket"},
		},
		"s3": {{Suite: "Run", ID: "A2", Outcome: conformance.Passed}},
	})
	require.Contains(t, text, "| case | P | rule | what must hold | memory | s3 |\n")
	require.Contains(t, text, "| A1 | 1 | W3 | the first operations on a fresh handle work | ✓ | – |\n")
	require.Contains(t, text, " | (1) | ✓ |\n")
	require.Contains(t, text, " | (2) | – |\n")
	require.Contains(t, text, "1. no \\| configuration\n2. no bucket\n\n")
	require.NotContains(t, text, "(3)")
	require.Contains(t, text, "| memory | Run | 1 | 3 |\n")
	require.NotContains(t, text, "azurite |")
}

const docsIntroduction = "# Conformance\n\n" +
	"<!-- Generated: go test ./conformance -run TestCaseTable -update -->\n\n" +
	"What walhop asks of a store and of a metadata log is checked by the suites of package [`conformance`](../conformance). They\n" +
	"are for everybody: they assume nothing but the contract, and a failure prints the rule that is broken and what that means\n" +
	"for the user's data. How to run them on a backend of your own is told in [`conformance/doc.go`](../conformance/doc.go); for a\n" +
	"bucket in use there is [`conformance/check`](../conformance/check).\n\n" +
	"**To cite a case**, name the suite and the id: \"fails `Run` C9\". An id stays what it is: a case may become stricter or go\n" +
	"away, but no other one will have its id. One id may be a case of two suites, played on a driver in `Run` and over a network in\n" +
	"`RunFaults`.\n\n" +
	"**To run one case**, name it as a subtest of the test that calls the suite:\n\n" +
	"```\ngo test ./s3 -run 'TestConformance/plain/C9$' -v\n```\n\n" +
	"**P** is the priority: 1 is what a store has to pass before anybody relies on it, 2 is the rest. **Rule** is the clause of the\n" +
	"contract, see [the rules](rules.md); `Hooks` is what `walstorage.Hooks` promises. ✓ means passed, – that the case has not been\n" +
	"run there, and a number that it is skipped, for the reason below the table. A failure is in no table: the tests of the\n" +
	"backend compare each run with what is recorded in [`conformance/results`](../conformance/results).\n\n"

// renderDocs returns docs/conformance.md.
func renderDocs(results map[string][]conformance.Result) string {
	var b strings.Builder
	b.WriteString(docsIntroduction)
	b.WriteString("| backend | what it is |\n|---|---|\n")
	for _, column := range columns {
		if results[column.name] != nil {
			fmt.Fprintf(&b, "| %s | %s |\n", column.name, column.is)
		}
	}
	b.WriteString("\n| backend | suite | passed | skipped |\n|---|---|---|---|\n")
	suites := slices.Compact(mapped(conformance.Cases(), func(c conformance.Case) string { return c.Suite }))
	for _, column := range columns {
		for _, suite := range suites {
			var passed, skipped int
			for _, result := range results[column.name] {
				switch {
				case result.Suite != suite:
				case result.Outcome == conformance.Passed:
					passed++
				default:
					skipped++
				}
			}
			if passed+skipped > 0 {
				fmt.Fprintf(&b, "| %s | %s | %d | %d |\n", column.name, suite, passed, skipped)
			}
		}
	}
	for _, group := range conformance.Groups() {
		for _, suite := range suites {
			renderGroup(&b, group, suite, results)
		}
	}
	b.WriteString("\n## What is out, and why\n\n")
	b.WriteString("The suites were made from a list of what goes wrong with object stores and with logs of events. These entries of it need\n")
	b.WriteString("what the contract does not have, or are somebody else's to show, so they are no cases. Every other entry is a case above. An\n")
	b.WriteString("entry of priority 3 could wait; as a case it counts as 2.\n\n")
	b.WriteString("| | P | what | why not |\n|---|---|---|---|\n")
	conformance.OutTable(func(id string, priority int, title, reason string) {
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", id, priority, cell(title), cell(reason))
	})
	b.WriteString("\n## What the suites are tested against\n\n")
	b.WriteString("Each of these backends is wrong in one way. It fails the case named here, and none outside of a set that is declared with it;\n")
	b.WriteString("backends that are right fail none. `go test ./conformance -run Mutants` shows it.\n\n")
	b.WriteString("| suite | what is wrong | caught by |\n|---|---|---|\n")
	conformance.Mutants(func(suite, name, caught string) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", suite, cell(name), caught)
	})
	return b.String()
}

// renderGroup writes the table of one group in one suite, with a column for each backend that has a result there.
func renderGroup(b *strings.Builder, group conformance.Group, suite string, results map[string][]conformance.Result) {
	var cases []conformance.Case
	for _, c := range conformance.Cases() {
		if c.Suite == suite && c.ID[:1] == group.Letter() {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return
	}
	in := ""
	if suite != "Run" {
		in = ", in `" + suite + "`"
	}
	fmt.Fprintf(b, "\n## %s: %s%s\n\n%s%s.\n\n", group.Letter(), group.Name(), in, strings.ToUpper(group.Proves()[:1]), group.Proves()[1:])
	head, line := "| case | P | rule | what must hold |", "|---|---|---|---|"
	var backends []map[string]conformance.Result // by id
	for _, column := range columns {
		byID := make(map[string]conformance.Result)
		for _, result := range results[column.name] {
			if result.Suite == suite && result.ID[:1] == group.Letter() {
				byID[result.ID] = result
			}
		}
		if len(byID) > 0 {
			backends = append(backends, byID)
			head, line = head+" "+column.name+" |", line+"---|"
		}
	}
	fmt.Fprintf(b, "%s\n%s\n", head, line)
	var reasons []string
	for _, c := range cases {
		title := cell(c.Title)
		if needs := conformance.Needs(c); needs != "" {
			title += " *needs " + needs + "*"
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s |", c.ID, c.Priority, c.Rule, title)
		for _, byID := range backends {
			result, ok := byID[c.ID]
			switch {
			case !ok:
				b.WriteString(" – |")
			case result.Outcome == conformance.Passed:
				b.WriteString(" ✓ |")
			default:
				if !slices.Contains(reasons, result.Reason) {
					reasons = append(reasons, result.Reason)
				}
				fmt.Fprintf(b, " (%d) |", slices.Index(reasons, result.Reason)+1)
			}
		}
		b.WriteString("\n")
	}
	if len(reasons) > 0 {
		b.WriteString("\n")
		for i, reason := range reasons {
			fmt.Fprintf(b, "%d. %s\n", i+1, cell(reason))
		}
	}
}

// cell makes a text fit into a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

func mapped[A, B any](all []A, f func(A) B) (out []B) {
	for _, a := range all {
		out = append(out, f(a))
	}
	return out
}
