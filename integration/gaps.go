package integration

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
)

//go:embed gaps.txt
var gapsText string

// Gap is a line of gaps.txt.
type Gap struct {
	// Group is "Run" or another suite of package conformance, or "probe".
	Group string
	// Case is the id of a case of the suite, or the name of a probe.
	Case   string
	Server Server
	Reason string
}

// Gaps returns the reasons of the gaps of one server in one group, by case. Of a suite they are what its Config.Skip is.
// gaps.txt has a test of its own; here, a line of it that cannot be read fails the test.
func Gaps(tb testing.TB, server Server, group string) map[string]string {
	tb.Helper()
	gaps, err := parseGaps(gapsText)
	if err != nil {
		tb.Fatal(err)
	}
	reasons := make(map[string]string)
	for _, gap := range gaps {
		if gap.Server == server && gap.Group == group {
			reasons[gap.Case] = gap.Reason
		}
	}
	return reasons
}

// parseGaps reads the lines of gaps.txt: none without all three parts, and none twice.
func parseGaps(text string) ([]Gap, error) {
	var gaps []Gap
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("gaps.txt:%d: has no case, server and reason", i+1)
		}
		gap := Gap{Server: Server(fields[1]), Reason: strings.Join(fields[2:], " ")}
		var found bool
		if gap.Group, gap.Case, found = strings.Cut(fields[0], "/"); !found || gap.Group == "" || gap.Case == "" {
			return nil, fmt.Errorf("gaps.txt:%d: %q is no group and case", i+1, fields[0])
		}
		if _, known := variables[gap.Server]; !known {
			return nil, fmt.Errorf("gaps.txt:%d: there is no server %q", i+1, gap.Server)
		}
		if slices.ContainsFunc(gaps, func(other Gap) bool {
			return other.Group == gap.Group && other.Case == gap.Case && other.Server == gap.Server
		}) {
			return nil, fmt.Errorf("gaps.txt:%d: %s of %s stands there twice", i+1, fields[0], gap.Server)
		}
		gaps = append(gaps, gap)
	}
	return gaps, nil
}
