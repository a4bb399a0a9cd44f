// Command tally reads what go test -json prints, shows which tests have ended, what went wrong, what was skipped and what
// tests say of themselves by T.Attr, and writes how many tests have passed, failed and been skipped to the file named, as
// three numbers on one line. What counts is the innermost: a test with subtests counts as these. A package that fails
// without a failed test, since it does not compile or was ended, counts as one failure, and so does one in which nothing
// ran.
//
//	go test -json ./... | tally counts.txt
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tally FILE <output of go test -json")
		os.Exit(2)
	}
	counts, err := tally(os.Stdin, os.Stdout)
	if err == nil {
		err = os.WriteFile(os.Args[1], fmt.Appendf(nil, "%d %d %d\n", counts.passed, counts.failed, counts.skipped), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Key, Value                                string // of T.Attr
	Elapsed                                   float64
}

type counts struct{ passed, failed, skipped int }

// test is what is known of one test; the test "" is its package.
type test struct {
	outcome string
	output  []string
	parent  bool
}

// tally counts the events and prints failures and skips, and a line for each package.
func tally(in io.Reader, out io.Writer) (counts, error) {
	var all counts
	packages := map[string]map[string]*test{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				_, _ = out.Write(line) // what the go command itself has to say
			} else if done := note(packages, e, out); done != nil {
				all.passed += done.passed
				all.failed += done.failed
				all.skipped += done.skipped
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return all, err
		}
	}
	// A package that has begun and of which no end was told.
	for name := range packages {
		fmt.Fprintf(out, "%s has not ended\n", name)
		all.failed++
	}
	return all, nil
}

// note takes one event in. It returns the counts of a package that has ended with it.
func note(packages map[string]map[string]*test, e event, out io.Writer) *counts {
	if e.Package == "" { // output of a build
		fmt.Fprint(out, e.Output)
		return nil
	}
	tests := packages[e.Package]
	if tests == nil {
		tests = map[string]*test{}
		packages[e.Package] = tests
	}
	t := tests[e.Test]
	if t == nil {
		t = &test{}
		tests[e.Test] = t
		for name, above := range tests {
			if name != "" && strings.HasPrefix(e.Test, name+"/") {
				above.parent = true
			}
		}
	}
	switch e.Action {
	case "attr":
		fmt.Fprintf(out, "    %s: %s: %s\n", e.Test, e.Key, e.Value)
	case "output":
		t.output = append(t.output, e.Output)
	case "pass", "fail", "skip":
		t.outcome = e.Action
		if e.Test != "" && !strings.Contains(e.Test, "/") {
			fmt.Fprintf(out, "    %s: %s, %.1f s\n", e.Test, e.Action, e.Elapsed)
		}
		if e.Test == "" {
			delete(packages, e.Package)
			done := ended(e.Package, tests, e.Elapsed, out)
			return &done
		}
	}
	return nil
}

// ended counts the tests of a package and prints what is worth reading.
func ended(name string, tests map[string]*test, elapsed float64, out io.Writer) counts {
	var c counts
	names := make([]string, 0, len(tests))
	for name := range tests {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, testName := range names {
		t := tests[testName]
		switch {
		case testName == "":
		case t.outcome == "skip":
			if !t.parent {
				c.skipped++
			}
			fmt.Fprint(out, strings.Join(t.output, ""))
		case t.outcome == "pass":
			if !t.parent {
				c.passed++
			}
		default: // failed, or never ended
			if !t.parent || !failedBelow(testName, names, tests) {
				c.failed++
			}
			fmt.Fprint(out, strings.Join(t.output, ""))
		}
	}
	whole := tests[""]
	nothing := c == (counts{}) && whole.outcome != "skip" // skip: a package without tests
	if whole.outcome == "fail" || nothing {
		fmt.Fprint(out, strings.Join(whole.output, ""))
		c.failed = max(c.failed, 1)
	}
	if nothing {
		fmt.Fprintf(out, "%s: nothing ran\n", name)
	}
	fmt.Fprintf(out, "%s: %d passed, %d failed, %d skipped, %.1f s\n", name, c.passed, c.failed, c.skipped, elapsed)
	return c
}

// failedBelow tells whether a subtest of the test has failed, which is then what counts.
func failedBelow(above string, names []string, tests map[string]*test) bool {
	for _, name := range names {
		if strings.HasPrefix(name, above+"/") && tests[name].outcome != "pass" && tests[name].outcome != "skip" {
			return true
		}
	}
	return false
}
