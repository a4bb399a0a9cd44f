package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each test that the argument leans on is in the tree, under the name and in the directory that the page gives, and each
// rule that it names is one of rules.md.
func TestCorrectnessNamesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("correctness.md")
	require.NoError(t, err)
	rules, err := os.ReadFile("rules.md")
	require.NoError(t, err)
	sources, _ := testsOfTheTree(t)

	names := testName.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(names), 60)
	for _, name := range names {
		assert.Contains(t, sources, name[1]+"."+name[2])
	}
	for _, rule := range regexp.MustCompile(`\b[WSLMFB]\d+\b`).FindAllString(string(text), -1) {
		assert.Contains(t, string(rules), "\n| "+rule+" |")
	}
	for _, file := range regexp.MustCompile("`([a-z/]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		assert.FileExists(t, "../"+file[1])
	}
}

// The links within the page lead to its sections.
func TestCorrectnessLinksItsSections(t *testing.T) {
	text, err := os.ReadFile("correctness.md")
	require.NoError(t, err)
	sections := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if title, found := strings.CutPrefix(line, "## "); found {
			title = strings.ToLower(strings.TrimSpace(title))
			sections[regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(title, "")] = true
		}
	}
	links := regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, links)
	for _, l := range links {
		assert.True(t, sections[strings.ReplaceAll(l[1], "-", " ")], l[1])
	}
}
