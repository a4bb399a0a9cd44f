package caseresults

import (
	"fmt"
	"os"
	"strings"

	"github.com/walhop/walhop/conformance"
)

// Load returns the results that are stored for a backend, in the order of the suites. Where there is no file the error
// is fs.ErrNotExist.
func Load(name string) ([]conformance.Result, error) {
	path, err := file(name)
	if err != nil {
		return nil, err
	}
	return read(path)
}

// render returns the text of a file.
func render(name string, results []conformance.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What became of each case of the conformance suites on %s. Not edited by hand: package caseresults writes it.\n", name)
	suite := ""
	for _, result := range results {
		if result.Suite != suite {
			suite = result.Suite
			fmt.Fprintf(&b, "\n[%s]\n", suite)
		}
		fmt.Fprintf(&b, "%s %s\n", result.ID, line(result))
	}
	return b.String()
}

// line is what a file says of a case after its id.
func line(result conformance.Result) string {
	if result.Reason == "" {
		return string(result.Outcome)
	}
	return string(result.Outcome) + ": " + result.Reason
}

func read(path string) (results []conformance.Result, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	suite := ""
	for n, line := range strings.Split(string(text), "\n") {
		inner, section := strings.CutPrefix(line, "[")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case section && strings.HasSuffix(inner, "]"):
			suite = strings.TrimSuffix(inner, "]")
			continue
		}
		id, rest, _ := strings.Cut(line, " ")
		outcome, reason, _ := strings.Cut(rest, ": ")
		result := conformance.Result{Suite: suite, ID: id, Outcome: conformance.Outcome(outcome), Reason: reason}
		if suite == "" || result.Outcome != conformance.Passed && (result.Outcome != conformance.Skipped || reason == "") {
			return nil, fmt.Errorf("%s:%d: not a line like \"C9 passed\" or \"I4 skipped: reason\" below a [suite]: %s", path, n+1, line)
		}
		results = append(results, result)
	}
	return results, nil
}
