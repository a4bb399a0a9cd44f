package caseresults

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/walhop/walhop/conformance"
)

// Variable is the environment variable that has the files written instead of compared, if it is set to anything.
const Variable = "WALHOP_UPDATE_RESULTS"

// writing lets one test at a time of this process write: a file has sections of several tests.
var writing sync.Mutex

// Record returns a function for the Report of a suite's configuration, or of several, which may run in parallel. When t
// has ended, the results are compared with the file of the name, or written to it; see the package documentation. The
// name is that of a backend, made of a-z, 0-9 and "-".
func Record(t *testing.T, name string) func(conformance.Result) {
	t.Helper()
	var mu sync.Mutex
	var results []conformance.Result
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case t.Failed() || t.Skipped():
			return
		case testing.Short() || raceDetector || runtime.GOOS != "linux":
			t.Logf("caseresults: under -short, the race detector and on %s nothing is compared", runtime.GOOS)
			return
		}
		if err := settle(name, results, os.Getenv(Variable) != ""); err != nil {
			t.Error(err)
		}
	})
	return func(result conformance.Result) {
		mu.Lock()
		defer mu.Unlock()
		results = append(results, result)
	}
}

// settle compares the results with the file of the name, or writes them.
func settle(name string, results []conformance.Result, update bool) error {
	path, err := file(name)
	if err != nil {
		return err
	}
	writing.Lock()
	defer writing.Unlock()
	stored, err := read(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	fresh, err := complete(results)
	switch {
	case err != nil:
		return err
	case update && len(fresh) > 0:
		return os.WriteFile(path, []byte(render(name, merge(stored, fresh))), 0o644)
	}
	if differences := compare(stored, fresh); len(differences) > 0 {
		return fmt.Errorf("the results are not those in conformance/results/%s.txt; if this is meant, write them with %s=1:\n%s",
			name, Variable, strings.Join(differences, "\n"))
	}
	return nil
}

// complete returns the results of the suites that have run whole: a case that -run has left out has no result.
func complete(results []conformance.Result) (whole []conformance.Result, err error) {
	cases := conformance.Cases()
	known := make(map[[2]string]bool)
	suites := make(map[string]int) // the number of cases that have not run, by suite
	for _, c := range cases {
		known[[2]string{c.Suite, c.ID}] = true
		suites[c.Suite]++
	}
	seen := make(map[[2]string]conformance.Result)
	for _, result := range results {
		key := [2]string{result.Suite, result.ID}
		if !known[key] {
			return nil, fmt.Errorf("caseresults: no case %q of a suite %q", result.ID, result.Suite)
		}
		if _, ok := seen[key]; ok {
			return nil, fmt.Errorf("caseresults: case %s of %s is reported twice: record each suite once under a name", result.ID, result.Suite)
		}
		seen[key] = result
		suites[result.Suite]--
	}
	for _, c := range cases {
		if result, ok := seen[[2]string{c.Suite, c.ID}]; ok && suites[c.Suite] == 0 {
			result.Reason = strings.Join(strings.Fields(result.Reason), " ")
			whole = append(whole, result)
		}
	}
	return whole, nil
}

// merge returns the stored results with those of the suites in fresh replaced, in the order of the suites.
func merge(stored, fresh []conformance.Result) (merged []conformance.Result) {
	replaced := make(map[string]bool)
	for _, result := range fresh {
		replaced[result.Suite] = true
	}
	all := slices.Clone(fresh)
	for _, result := range stored {
		if !replaced[result.Suite] {
			all = append(all, result)
		}
	}
	for _, c := range conformance.Cases() {
		for _, result := range all {
			if result.Suite == c.Suite && result.ID == c.ID {
				merged = append(merged, result)
			}
		}
	}
	return merged
}

// compare names what differs between the two in the suites of fresh.
func compare(stored, fresh []conformance.Result) (differences []string) {
	suites := make(map[string]bool)
	for _, result := range fresh {
		suites[result.Suite] = true
		at := slices.IndexFunc(stored, func(s conformance.Result) bool { return s.Suite == result.Suite && s.ID == result.ID })
		switch {
		case at < 0:
			differences = append(differences, fmt.Sprintf("%s %s: not in the file, now %s", result.Suite, result.ID, line(result)))
		case stored[at] != result:
			differences = append(differences, fmt.Sprintf("%s %s: in the file %s, now %s", result.Suite, result.ID, line(stored[at]), line(result)))
		}
	}
	for _, s := range stored {
		same := func(result conformance.Result) bool { return s.Suite == result.Suite && s.ID == result.ID }
		if suites[s.Suite] && !slices.ContainsFunc(fresh, same) {
			differences = append(differences, fmt.Sprintf("%s %s: in the file %s, now no case", s.Suite, s.ID, line(s)))
		}
	}
	return differences
}

// file returns the path of the file of a name, from any directory below the module's root; the integration module is one.
func file(name string) (string, error) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", fmt.Errorf("caseresults: a name is made of a-z, 0-9 and \"-\": %q", name)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		results := filepath.Join(dir, "conformance", "results")
		if info, err := os.Stat(results); err == nil && info.IsDir() {
			return filepath.Join(results, name+".txt"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("caseresults: no directory above the test has conformance/results in it")
		}
		dir = parent
	}
}
