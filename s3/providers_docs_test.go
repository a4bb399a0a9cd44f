package s3

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

var update = flag.Bool("update", false, "write the table of stores into docs/backends.md")

// The table in docs/backends.md is this one.
func TestProvidersInTheDocs(t *testing.T) {
	const file = "../docs/backends.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	want := providersTable()
	head, _, _ := strings.Cut(want, "\n")
	before, rest, found := strings.Cut(string(text), head)
	require.True(t, found, "%s has no table of stores", file)
	table, after, _ := strings.Cut(rest, "\n\n")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+want+"\n"+after), 0o644))
		return
	}
	if head+table+"\n" != want {
		t.Errorf("%s has another table of stores than s3/providers.go: go test ./s3 -run TestProvidersInTheDocs -update", file)
	}
}

// providersTable renders the table for the docs.
func providersTable() string {
	creating := map[creates]string{
		createsUnknown: "unknown", createsNone: "**no: refused**", createsDocumented: "documented", createsMeasured: "measured",
	}
	known := map[evidence]string{byMeasuring: "measured", byDocuments: "documented", byReport: "reported"}
	kinds := map[error]string{
		walstorage.ErrAccessDenied: "`ErrAccessDenied`", walstorage.ErrNoSpace: "`ErrNoSpace`",
		walstorage.ErrUnavailable: "`ErrUnavailable`", walstorage.ErrCorrupt: "`ErrCorrupt`",
	}
	var b strings.Builder
	b.WriteString("| `Provider` | store | taken for endpoints of | atomic create | it sets | what is known, and from where |\n|---|---|---|---|---|---|\n")
	for _, row := range providers() {
		var sets, facts []string
		if row.pathStyle {
			sets = append(sets, "`PathStyle`")
		}
		if row.noChecksum {
			sets = append(sets, "`NoChecksum`")
		}
		if row.region != "" {
			sets = append(sets, fmt.Sprintf("`Region: %q`", row.region))
		}
		for _, code := range slices.Sorted(maps.Keys(row.codes)) {
			sets = append(sets, fmt.Sprintf("`%s` is %s", code, kinds[row.codes[code]]))
		}
		for _, f := range row.facts {
			source := "`" + f.source + "`"
			if strings.HasPrefix(f.source, "https://") {
				source = "<" + f.source + ">"
			}
			facts = append(facts, fmt.Sprintf("%s (%s: %s)", f.says, known[f.known], source))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", row.name, row.title, strings.Join(row.hosts, ", "), creating[row.creates],
			strings.Join(sets, ", "), strings.Join(facts, "; "))
	}
	return b.String()
}
