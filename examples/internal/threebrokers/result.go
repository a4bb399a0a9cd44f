package threebrokers

import (
	"bytes"
	"fmt"
	"io"
)

// Result is what the closing line says.
type Result struct {
	// Batches is the number of batches that followers should have: each of the leaders' twice.
	Batches int
	// Through is how many of those the followers appended from the store. The rest they fetched from the leader.
	Through int64
	// Differences is the number of followers' logs that are not their leader's, byte for byte.
	Differences int
}

// compare compares every follower's log with its leader's, and tells of each that differs.
func (c *cluster) compare(out io.Writer) (r Result) {
	for _, replicated := range c.all() {
		leader := replicated.leader().log
		want := leader.Bytes(leader.Start())
		n, _ := count(want)
		for _, p := range replicated.replicas[1:] {
			r.Batches += n
			if got := p.log.Bytes(p.log.Start()); !bytes.Equal(want, got) {
				r.Differences++
				fmt.Fprintf(out, "%s on broker %d differs from its leader's log: %d bytes, the leader has %d\n", replicated, p.broker.id, len(got), len(want))
			}
		}
	}
	for _, b := range c.brokers {
		r.Through += b.replicator.Stats().Batches
	}
	return r
}

// String is the closing line.
func (r Result) String() string {
	return fmt.Sprintf("replicated %d batches, %d through the store, %d differences", r.Batches, r.Through, r.Differences)
}

// Share is how much of all came through the store, between 0 and 1; 1 where there was nothing.
func (r Result) Share() float64 {
	if r.Batches == 0 {
		return 1
	}
	return float64(r.Through) / float64(r.Batches)
}

// Err says what is wrong with the result, nil if nothing is: a log that differs, or less than the share that is expected
// to come through the store.
func (r Result) Err(share float64) error {
	switch {
	case r.Differences > 0:
		return fmt.Errorf("%d logs differ from their leaders'", r.Differences)
	case r.Share() < share:
		return fmt.Errorf("of %d batches only %d came through the store: it was too slow, or failed (see above)", r.Batches, r.Through)
	}
	return nil
}
