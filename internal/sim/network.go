package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// network carries the messages between brokers, and between them and the controller. Each kind of message from one
// broker to another has an actor of its own.
type network struct {
	cluster *Cluster
	links   map[link]*actor // never changed while the cluster runs

	mu    sync.Mutex
	muted map[sender]bool            // whose messages of one kind are lost
	cuts  map[[2]int32]chan struct{} // closed when the cut heals
	lost  map[[2]int32]time.Duration // when the last message between two was lost
}

type link struct {
	from, to int32
	kind     string
	part     int
}

// theController is the controller's place in the network.
const theController = int32(0)

var errUnreachable = errors.New("sim: no answer")

func newNetwork(c *Cluster) *network {
	return &network{cluster: c, links: map[link]*actor{}, muted: map[sender]bool{}, cuts: map[[2]int32]chan struct{}{}, lost: map[[2]int32]time.Duration{}}
}

// connect makes the links of a kind between all brokers; part is -1 for those that all partitions share.
func (n *network) connect(i *instants, brokers []int32, kind string, part int) {
	for _, from := range brokers {
		for _, to := range brokers {
			if from != to {
				n.links[link{from, to, kind, part}] = i.actor("%s %d>%d %d", kind, from, to, part)
			}
		}
	}
}

// travel takes the time of message number op, 0 for the next one, and tells whether it arrives. A lost message costs its
// sender a time-out. Where two messages can leave at one instant their numbers must not depend on who is first (D2).
func (n *network) travel(ctx context.Context, l link, op uint64) error {
	a := n.links[l]
	if a == nil {
		panic(fmt.Sprintf("sim: no link %+v", l))
	}
	if op == 0 {
		op = a.next()
	}
	faults := n.cluster.faults()
	latency := a.chance.between(op, "latency", n.cluster.cfg.LinkLatency/2, n.cluster.cfg.LinkLatency*3/2)
	lost := n.cut(l.from, l.to) != nil || n.isMuted(l) || a.chance.happens(op, "lost", faults.MessageLost)
	switch {
	case lost:
		latency = n.cluster.cfg.LinkTimeout
	case a.chance.happens(op, "slow", faults.MessageSlow):
		n.cluster.count("message slow: " + l.kind)
		latency += a.chance.between(op, "slowness", 10*time.Millisecond, 300*time.Millisecond)
	}
	err := a.take(ctx, op, latency)
	if lost { // also where its sender did not wait for so long (seed 7574)
		n.cluster.count("message lost: " + l.kind)
		n.noteLost(l.from, l.to)
	}
	if err != nil {
		return err
	}
	if lost {
		return fmt.Errorf("%w: %d to %d", errUnreachable, l.from, l.to)
	}
	n.cluster.trace.add(a.name, "message %d", int64(op))
	return nil
}

// cut returns a channel that is closed when the two can reach each other again, nil if they can.
func (n *network) cut(a, b int32) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[pair(a, b)]
}

func (n *network) noteLost(a, b int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost[pair(a, b)] = n.cluster.instants.now()
}

// lastLost returns when the last message between two was lost, 0 if never.
func (n *network) lastLost(a, b int32) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts[pair(a, b)] != nil {
		return n.cluster.instants.now()
	}
	return n.lost[pair(a, b)]
}

// sender is a broker, as far as it sends messages of one kind.
type sender struct {
	broker int32
	kind   string
}

func (n *network) isMuted(l link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.muted[sender{l.from, l.kind}]
}

func (n *network) mute(broker int32, kind string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.muted[sender{broker, kind}] = on
}

func pair(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

func (n *network) sever(a, b int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts[pair(a, b)] == nil {
		n.cuts[pair(a, b)] = make(chan struct{})
	}
}

func (n *network) heal(a, b int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if healed := n.cuts[pair(a, b)]; healed != nil {
		close(healed)
		delete(n.cuts, pair(a, b))
	}
}

func (n *network) healAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for cut, healed := range n.cuts { // the order does not show: nothing runs on meanwhile
		close(healed)
		delete(n.cuts, cut)
	}
}
