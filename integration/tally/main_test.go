package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What go test -json says comes out as the right three numbers, and no failure is lost.
func TestTally(t *testing.T) {
	lines := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	for _, given := range []struct {
		name, input string
		want        counts
		prints      []string
	}{
		{
			name: "the innermost tests count",
			input: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/C1"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/C1"}`,
				`{"Action":"run","Package":"p","Test":"TestA/C2"}`,
				`{"Action":"output","Package":"p","Test":"TestA/C2","Output":"C2 is skipped: a reason\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA/C2"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestB"}`,
				`{"Action":"pass","Package":"p","Test":"TestB"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.5}`,
			),
			want: counts{passed: 2, skipped: 1}, prints: []string{"a reason", "p: 2 passed, 0 failed, 1 skipped, 1.5 s"},
		},
		{
			name: "what a test says of itself",
			input: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"attr","Package":"p","Test":"TestA","Key":"cluster","Value":"replicated 9 batches"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p"}`,
			),
			want: counts{passed: 1}, prints: []string{"TestA: cluster: replicated 9 batches", "TestA: pass"},
		},
		{
			name: "a case that failed",
			input: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/C1"}`,
				`{"Action":"output","Package":"p","Test":"TestA/C1","Output":"C1 failed\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/C1"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			),
			want: counts{failed: 1}, prints: []string{"C1 failed"},
		},
		{
			name: "a test that failed after all its cases had passed",
			input: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/C1"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/C1"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"not what is recorded\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			),
			want: counts{passed: 1, failed: 1}, prints: []string{"not what is recorded"},
		},
		{
			name: "a package that does not compile",
			input: lines(
				`{"ImportPath":"p","Action":"build-output","Output":"undefined: x\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"start","Package":"p"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			),
			want: counts{failed: 1}, prints: []string{"undefined: x"},
		},
		{
			name: "a package that leaves goroutines behind, after its tests have passed",
			input: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"goleak: found unexpected goroutines\n"}`,
				`{"Action":"fail","Package":"p"}`,
			),
			want: counts{passed: 1, failed: 1}, prints: []string{"goleak"},
		},
		{
			name: "a test that was under way when its process died",
			input: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"signal: killed\n"}`,
				`{"Action":"fail","Package":"p"}`,
			),
			want: counts{failed: 1}, prints: []string{"signal: killed"},
		},
		{
			name:  "a package in which nothing ran",
			input: lines(`{"Action":"output","Package":"p","Output":"no tests to run\n"}`, `{"Action":"pass","Package":"p"}`),
			want:  counts{failed: 1}, prints: []string{"nothing ran"},
		},
		{
			name:  "a package without tests",
			input: lines(`{"Action":"output","Package":"p","Output":"no test files\n"}`, `{"Action":"skip","Package":"p"}`),
			want:  counts{},
		},
		{
			name:  "an output that ends early",
			input: `{"Action":"run","Package":"p","Test":"TestA"}`,
			want:  counts{failed: 1}, prints: []string{"p has not ended"},
		},
		{
			name:  "what the go command says for itself",
			input: lines("go: no such module"),
			want:  counts{}, prints: []string{"go: no such module"},
		},
	} {
		t.Run(given.name, func(t *testing.T) {
			var out strings.Builder
			got, err := tally(strings.NewReader(given.input), &out)
			require.NoError(t, err)
			require.Equal(t, given.want, got)
			for _, text := range given.prints {
				require.Contains(t, out.String(), text)
			}
		})
	}
}
