package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// grid is the distance of an actor's instants. It divides a millisecond, so that a timer of whole milliseconds set at
	// an instant of some actor fires at an instant of the same actor and of no other.
	grid = 100 * time.Microsecond
	// lanes is how many operations of one actor in a row have instants of their own, in the first half of the actor's
	// nanoseconds. The second half is for what follows from an event half a share later: see aside.
	lanes = 50
	share = 2 * lanes
	// aside is added to a delay in code that has no actor, so that what it does shares no instant with what the actor
	// does that it follows from.
	aside = lanes
	// maxActors is how many actors the grid has room for.
	maxActors = int(grid) / share
)

// instants gives every actor its own share of the nanoseconds: actor number n may wake only share*n to share*(n+1)
// nanoseconds after a point of the grid, each operation at the next of them. So no two events share an instant, and
// what the scheduler does within one cannot be seen (D2).
type instants struct {
	chance chance
	start  time.Time
	actors []*actor
	byName map[string]*actor
}

func newInstants(seed uint64) *instants {
	return &instants{chance: chance{mix(seed)}, start: time.Now(), byName: map[string]*actor{}}
}

// actor is a party that takes time: a link, a disk, a producer, the story itself.
type actor struct {
	instants *instants
	name     string
	chance   chance
	offset   time.Duration
	ops      atomic.Uint64
}

// actor registers an actor. Actors are registered by the story's goroutine, so in the same order in every run.
func (i *instants) actor(format string, args ...any) *actor {
	name := fmt.Sprintf(format, args...)
	if a := i.byName[name]; a != nil {
		return a
	}
	if len(i.actors) == maxActors {
		panic(fmt.Sprintf("sim: more than %d actors", maxActors))
	}
	a := &actor{instants: i, name: name, chance: i.chance.of(name), offset: time.Duration(len(i.actors) * share)}
	i.actors = append(i.actors, a)
	i.byName[name] = a
	return a
}

// now returns the time since the run began.
func (i *instants) now() time.Duration { return time.Since(i.start) }

// next returns the number of the actor's next operation.
func (a *actor) next() uint64 { return a.ops.Add(1) }

// due returns how long operation op takes, so that it ends at an instant of the actor's, at least latency from now.
func (a *actor) due(op uint64, latency time.Duration) time.Duration {
	now := a.instants.now()
	earliest := now + max(latency, 1)
	at := earliest - earliest%grid + a.offset + time.Duration(op%lanes)
	if at < earliest {
		at += grid
	}
	return at - now
}

// take lets operation op take its time and tells whether ctx still lives.
func (a *actor) take(ctx context.Context, op uint64, latency time.Duration) error {
	timer := time.NewTimer(a.due(op, latency))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() // after waking, always in this order
}
