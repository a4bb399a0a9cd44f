package caseresults

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
)

// place makes a module with a package in it, whose directory becomes that of the test, and returns the directory of the
// results.
func place(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	results, pkg := filepath.Join(root, "conformance", "results"), filepath.Join(root, "stores", "mine")
	require.NoError(t, os.MkdirAll(results, 0o755))
	require.NoError(t, os.MkdirAll(pkg, 0o755))
	t.Chdir(pkg)
	return results
}

// passing returns the results of suites all of whose cases pass.
func passing(suites ...string) (results []conformance.Result) {
	for _, suite := range suites {
		for _, c := range conformance.Cases() {
			if c.Suite == suite {
				results = append(results, conformance.Result{Suite: suite, ID: c.ID, Outcome: conformance.Passed})
			}
		}
	}
	return results
}

// What was written is what is read, two tests share a file, and any difference is named.
func TestFileOfResults(t *testing.T) {
	results := place(t)
	run, crash := passing("Run"), passing("RunCrash")
	run[3].Outcome, run[3].Reason = conformance.Skipped, "the configuration\nhas no: peer"

	// Given no file, then the results are compared with nothing.
	_, err := Load("mine")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, settle("mine", run, false), "Run A1: not in the file, now passed")

	// When one test writes its suite and another its own, in the wrong order, then the file has both, in order.
	require.NoError(t, settle("mine", crash, true))
	require.NoError(t, settle("mine", run, true))
	stored, err := Load("mine")
	require.NoError(t, err)
	require.Len(t, stored, len(run)+len(crash))
	require.Equal(t, run[0], stored[0])
	require.Equal(t, "the configuration has no: peer", stored[3].Reason)
	require.Equal(t, crash[0], stored[len(run)])
	text, err := os.ReadFile(filepath.Join(results, "mine.txt"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\n[Run]\nA1 passed\n")
	require.Contains(t, string(text), run[3].ID+" skipped: the configuration has no: peer\n")

	// Then the same results are no difference, and others are one.
	require.NoError(t, settle("mine", run, false))
	require.NoError(t, settle("mine", append(crash, run...), false))
	run[0].Outcome, run[0].Reason = conformance.Skipped, "too slow"
	require.ErrorContains(t, settle("mine", run, false), "Run A1: in the file passed, now skipped: too slow")
}

// What -run has left out is compared with nothing and overwrites nothing; one suite recorded twice is a mistake.
func TestPartOfASuite(t *testing.T) {
	place(t)
	run := passing("Run")
	require.NoError(t, settle("mine", run, true))
	require.NoError(t, settle("mine", nil, false), "a test that has run nothing")

	one := []conformance.Result{{Suite: "Run", ID: "C1", Outcome: conformance.Skipped, Reason: "alone"}}
	require.NoError(t, settle("mine", one, false))
	require.NoError(t, settle("mine", one, true))
	stored, err := Load("mine")
	require.NoError(t, err)
	require.Equal(t, run, stored)

	require.ErrorContains(t, settle("mine", append(run, run[0]), false), "case A1 of Run is reported twice")
	require.ErrorContains(t, settle("mine", []conformance.Result{{ID: "C1"}}, false), `no case "C1" of a suite ""`)
	require.ErrorContains(t, settle("../mine", run, false), "a name is made of")
}

// A line that is gone from the suite, or that nobody can read, is named.
func TestStaleAndDamagedFiles(t *testing.T) {
	results := place(t)
	run := passing("Run")
	require.NoError(t, settle("mine", run, true))
	path := filepath.Join(results, "mine.txt")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, "C99 passed\n"...), 0o644))
	require.ErrorContains(t, settle("mine", run, false), "Run C99: in the file passed, now no case")
	require.NoError(t, settle("mine", run, true))
	require.NoError(t, settle("mine", run, false))

	for _, damaged := range []string{"A1 passed\n", "[Run]\nA1 skipped\n", "[Run]\nA1 failed\n", "[Run]\nA1\n"} {
		require.NoError(t, os.WriteFile(path, []byte(damaged), 0o644))
		require.ErrorContains(t, settle("mine", run, false), "not a line like", damaged)
	}
}

// Record does it when the test has ended, whose suites may be subtests.
func TestRecord(t *testing.T) {
	if testing.Short() || raceDetector || runtime.GOOS != "linux" {
		t.Skip("nothing is recorded here: with -short, under the race detector, on other systems than Linux")
	}
	place(t)
	t.Setenv(Variable, "1")
	t.Run("suites", func(t *testing.T) {
		report := Record(t, "mine")
		for _, suite := range []string{"Run", "RunMetadata"} {
			t.Run(suite, func(t *testing.T) {
				t.Parallel()
				for _, result := range passing(suite) {
					report(result)
				}
			})
		}
	})
	stored, err := Load("mine")
	require.NoError(t, err)
	require.Equal(t, passing("Run", "RunMetadata"), stored)

	t.Setenv(Variable, "")
	t.Run("the same again", func(t *testing.T) {
		report := Record(t, "mine")
		for _, result := range passing("Run") {
			report(result)
		}
	})
}

// Outside of the module there is nowhere to look.
func TestNoModule(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load("mine")
	require.ErrorContains(t, err, "no directory above the test has conformance/results")
}
