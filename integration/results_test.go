package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
)

// stores are the stores that have a server here: what conformance/results calls the run of the suites on our fake.
var stores = map[Server]string{VersityGW: "s3", SeaweedFS: "s3", FakeGCS: "gcs", Azurite: "azure", Kafka: "kfake"}

// Our fakes and the real servers give the same results case by case, but for what gaps.txt lists: the results of both are
// recorded by the suites' own tests, which fail where a run differs from the record.
func TestFakesAreAsTheServers(t *testing.T) {
	gaps, err := parseGaps(gapsText)
	require.NoError(t, err)
	for server, store := range stores {
		onFake, err := caseresults.Load(store)
		require.NoError(t, err)
		onServer, err := caseresults.Load(string(server))
		require.NoError(t, err)
		for _, problem := range compare(store, onFake, server, onServer, gaps) {
			t.Error(problem)
		}
	}
}

// compare says what is wrong with gaps.txt as the list of the differences between two runs.
func compare(store string, onFake []conformance.Result, server Server, onServer []conformance.Result, gaps []Gap) (problems []string) {
	type key struct{ suite, id string }
	listed := make(map[key]string)
	for _, gap := range gaps {
		if gap.Server == server && gap.Group != "probe" {
			listed[key{gap.Group, gap.Case}] = gap.Reason
		}
	}
	outcomes := make(map[key][2]conformance.Outcome)
	for i, results := range [][]conformance.Result{onFake, onServer} {
		for _, result := range results {
			at := key{result.Suite, result.ID}
			both := outcomes[at]
			both[i] = result.Outcome
			outcomes[at] = both
		}
	}
	for at := range listed {
		if _, ran := outcomes[at]; !ran {
			problems = append(problems, fmt.Sprintf("gaps.txt has a line for %s/%s of %s, and there is no such case", at.suite, at.id, server))
		}
	}
	for at, both := range outcomes {
		_, gap := listed[at]
		if (both[0] != both[1]) != gap {
			problems = append(problems, fmt.Sprintf("%s/%s: %q on the fake of %s, %q on %s, and a line in gaps.txt: %t",
				at.suite, at.id, both[0], store, both[1], server, gap))
		}
	}
	slices.Sort(problems)
	return problems
}

// A difference without a line is found, and so is a line without a difference.
func TestCompare(t *testing.T) {
	results := func(outcomes map[string]conformance.Outcome) (results []conformance.Result) {
		for _, id := range slices.Sorted(maps.Keys(outcomes)) {
			results = append(results, conformance.Result{Suite: "Run", ID: id, Outcome: outcomes[id]})
		}
		return results
	}
	const passed, skipped = conformance.Passed, conformance.Skipped
	onFake := results(map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": passed})
	for _, given := range []struct {
		name     string
		onServer map[string]conformance.Outcome
		gaps     []Gap
		want     int
	}{
		{"alike", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": passed}, nil, 0},
		{"a gap", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": skipped}, []Gap{{"Run", "I4", Azurite, "reason"}}, 0},
		{"another's gap", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": skipped}, []Gap{{"Run", "I4", FakeGCS, "reason"}}, 1},
		{"a difference", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": skipped}, nil, 1},
		{"a case that did not run", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed}, nil, 1},
		{"a case that ran on the server alone", map[string]conformance.Outcome{"A1": passed, "B12": passed, "C9": passed, "I4": passed}, nil, 1},
		{"a line too many", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": passed}, []Gap{{"Run", "I4", Azurite, "reason"}}, 1},
		{"a line for no case", map[string]conformance.Outcome{"A1": passed, "B12": skipped, "C9": passed, "I4": passed}, []Gap{{"Run", "Z1", Azurite, "reason"}}, 1},
	} {
		t.Run(given.name, func(t *testing.T) {
			require.Len(t, compare("azure", onFake, Azurite, results(given.onServer), given.gaps), given.want)
		})
	}
}
