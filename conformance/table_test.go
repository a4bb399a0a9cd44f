package conformance

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated part of the package documentation")

// Every id of the list is a case or stands in the out-table with a reason, and the package documentation holds both tables
// as they are. `go test ./conformance -run TestCaseTable -update` writes them.
func TestCaseTable(t *testing.T) {
	legal := regexp.MustCompile(`^[A-Z][1-9][0-9]?$`)
	implemented, out := make(map[string]testCase), make(map[string]string)
	for _, suite := range suites() {
		known := make(map[string]bool)
		for _, tc := range suite.cases {
			require.Regexp(t, legal, tc.id)
			require.False(t, known[tc.id], "two cases %s in %s", tc.id, suite.name)
			require.Contains(t, []int{1, 2}, tc.priority, tc.id)
			if before, ok := implemented[tc.id]; ok {
				require.Equal(t, before.priority, tc.priority, "%s has two priorities", tc.id)
			}
			known[tc.id], implemented[tc.id] = true, tc
		}
	}
	for _, row := range outTable {
		require.NotContains(t, implemented, row.id, "a case that is out and in")
		require.NotContains(t, out, row.id, "two rows of one id")
		require.NotEmpty(t, strings.TrimSpace(row.reason), row.id)
		out[row.id] = row.reason
	}
	demanded := strings.Fields(priorityOne + priorityTwo + priorityThree)
	for _, id := range demanded {
		_, in := implemented[id]
		_, isOut := out[id]
		require.True(t, in || isOut, "priority %d case %s is neither a case nor in the out-table", priorityOf(id), id)
		if in {
			require.Equal(t, min(priorityOf(id), 2), implemented[id].priority, id)
		}
	}
	for id := range out {
		require.True(t, slices.Contains(demanded, id), "%s is in the out-table and nobody asks for it", id)
	}
	// The list is whole: each number of each group is in it once.
	all := 0
	for letter, n := range listed {
		for number := 1; number <= n; number++ {
			id := fmt.Sprint(letter, number)
			require.Equal(t, 1, len(slices.DeleteFunc(slices.Clone(demanded), func(other string) bool { return other != id })), "%s in the list", id)
		}
		all += n
	}
	require.Len(t, demanded, all, "entries of the list")
	require.Equal(t, 242, all)
	for _, tc := range allCases() {
		require.True(t, slices.ContainsFunc(groups, func(g group) bool { return g.letter == tc.group() }), "case %s has no group", tc.id)
	}

	const name = "doc_table.go"
	want := renderTables()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "%s is not the generated table: run this test with -update", name)
}

// A test that the out-table sends its reader to is there.
func TestOutTableNamesTests(t *testing.T) {
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	}))
	named := regexp.MustCompile(`\bTest[A-Z]\w+`)
	found := 0
	for _, row := range outTable {
		for _, name := range named.FindAllString(row.reason, -1) {
			require.True(t, strings.Contains(tests.String(), "func "+name), "%s names %s, which is nowhere", row.id, name)
			found++
		}
	}
	require.Greater(t, found, 10)
}
