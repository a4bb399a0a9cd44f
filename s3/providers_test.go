package s3

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing in the table is without a source: each setting has a fact that it rests on, and what is said of creates is
// known in the way that the first fact is.
func TestProvidersHaveSources(t *testing.T) {
	source := regexp.MustCompile(`^(https://\S+|[\w.-]+/[\w.-]+#\d+|[\w.-]+/[\w.-]+ [\w./-]+\.\w+|([\w. ]+, )*20\d\d-\d\d)$`)
	seen := map[string]bool{}
	for _, row := range providers() {
		t.Run(row.name, func(t *testing.T) {
			assert.Regexp(t, `^[a-z0-9-]+$`, row.name)
			assert.NotEmpty(t, row.title)
			assert.False(t, seen[row.name], "the name is there twice")
			seen[row.name] = true
			said := ""
			for _, f := range row.facts {
				assert.NotEmpty(t, f.says)
				assert.Regexp(t, source, f.source)
				said += f.says + "\n"
			}
			want := map[creates]evidence{createsMeasured: byMeasuring, createsDocumented: byDocuments}
			if known, proven := want[row.creates]; proven {
				assert.Contains(t, row.facts[0].says, "If-None-Match: * creates")
				assert.Equal(t, known, row.facts[0].known)
			}
			if row.creates == createsNone {
				assert.Contains(t, row.facts[0].says, "If-None-Match")
				assert.NotEmpty(t, row.instead)
			}
			if row.creates == createsUnknown {
				assert.NotContains(t, said, "If-None-Match")
			}
			for _, setting := range []struct {
				set    bool
				reason string
			}{
				{row.pathStyle, "host name|path style"},
				{row.noChecksum, "CRC-32C"},
				{row.region != "", "the region is " + row.region},
				{row.codes != nil, "error codes"},
			} {
				if setting.set {
					assert.Regexp(t, setting.reason, said)
				}
			}
		})
	}
	for _, name := range []string{nameAmazon, nameExpress, nameCompatible} {
		assert.True(t, seen[name], name)
	}
}

// A code has one meaning, and none stands in a row that Amazon has too.
func TestProviderCodesAgree(t *testing.T) {
	meaning := common()
	from := map[string]string{}
	for _, row := range providers() {
		for code, kind := range row.codes {
			other, known := meaning[code]
			require.True(t, !known || from[code] != "", "%s of %s is Amazon's", code, row.name)
			require.True(t, !known || other == kind, "%s means one thing to %s and another to %s", code, row.name, from[code])
			meaning[code], from[code] = kind, row.name
		}
	}
	for _, row := range providers() {
		assert.Equal(t, meaning, codesOf(row), row.name)
	}
}

// The documentation of Config.Provider names every store that is not refused.
func TestProviderDocumentation(t *testing.T) {
	text, err := os.ReadFile("config.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(text), "\tProvider string\n")
	for _, row := range providers() {
		assert.Equal(t, row.creates != createsNone, strings.Contains(doc, `"`+row.name+`"`), row.name)
	}
}
