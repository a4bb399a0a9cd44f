package integration

import (
	"slices"
	"testing"
)

// Probe is a small raw exchange with a server that speaks a store's protocol, beside what the drivers send: C is what it
// is sent with.
type Probe[C any] struct {
	// Name is what gaps.txt calls it.
	Name string
	// Want is what the store itself answers, by its documentation, one string for each answer.
	Want []string
	// Run sends the requests and returns the answers in the same words.
	Run func(tb testing.TB, c C) []string
}

// RunProbes sends each probe to our fake, which has to answer as the store does, and to the real server, which has to do
// so too unless gaps.txt has a line for it. So the fake is held to the store and not to the server.
func RunProbes[C any](t *testing.T, server Server, probes []Probe[C], fake, real C) {
	t.Helper()
	gaps := Gaps(t, server, "probe")
	for _, probe := range probes {
		reason, gap := gaps[probe.Name]
		delete(gaps, probe.Name)
		t.Run(probe.Name, func(t *testing.T) {
			if got := probe.Run(t, fake); !slices.Equal(got, probe.Want) {
				t.Errorf("our fake answers\n\t%q\nwhere the store answers\n\t%q", got, probe.Want)
			}
			got := probe.Run(t, real)
			switch same := slices.Equal(got, probe.Want); {
			case !same && !gap:
				t.Errorf("%s answers\n\t%q\nwhere the store answers\n\t%q\nand gaps.txt has no line for probe/%s", server, got, probe.Want, probe.Name)
			case same && gap:
				t.Errorf("gaps.txt has a line for probe/%s of %s, which answers as the store does: %s", probe.Name, server, reason)
			case gap:
				t.Logf("%s answers %q, not %q: %s", server, got, probe.Want, reason)
			}
		})
	}
	for name := range gaps {
		t.Errorf("gaps.txt has a line for probe/%s of %s, and there is no such probe", name, server)
	}
}
