package replica

import (
	"log/slog"
	"sync"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/walstorage/segment"
)

// ReporterConfig configures a [Reporter].
type ReporterConfig struct {
	// Replica is the broker id of this follower, 0 or greater.
	Replica int32
	// BrokerEpoch is the epoch of this broker's registration, 0 or greater. No other Reporter of this broker id may have
	// used it: the counters of its messages begin anew with it.
	BrokerEpoch int64
	// Send carries a message to a leader. Required.
	Send Send
	// Answered, if not nil, is called with every answer of the newest report of a partition, refusals included, those of
	// one leader one after the other. The broker takes the high watermark and the log start from it (B3). It must not
	// block.
	Answered func(leaderID int32, a Answer)
	// Linger is how long what moves is collected before a message goes out. Default 100 us.
	Linger time.Duration
	// Timeout ends a Send that has not returned. It must exceed the StallAfter of the leaders, which park a message that
	// long. Default 5 s.
	Timeout time.Duration
	// MinPause and MaxPause bound the pause after a message that failed, and after the report of a partition that was
	// refused, or diverged and has not moved since. The pause doubles from one to the other. Defaults 20 ms and 1 s.
	MinPause, MaxPause time.Duration
	// Seed makes the jitter of pauses repeatable. Default 0.
	Seed uint64
	// Hooks observe the reporter.
	Hooks ReporterHooks
	// Logger gets one line when the messages to a leader begin to fail and one when they work again. Default none.
	Logger *slog.Logger
}

// ReporterHooks are the points where metrics attach. Every field may be nil. The functions must be safe for concurrent
// use and must not block. New fields may be added, so name the fields when you fill one in.
type ReporterHooks struct {
	// Sent is called before each message with the number of its reports.
	Sent func(leaderID int32, reports int)
	// LeaderChanged is called when the messages to a leader begin to fail, with the first error, and with nil when they
	// work again.
	LeaderChanged func(leaderID int32, err error)
}

func (c ReporterConfig) withDefaults() (ReporterConfig, error) {
	switch {
	case c.Replica < 0:
		return c, invalid("Replica is %d, it must not be negative", c.Replica)
	case c.BrokerEpoch < 0:
		return c, invalid("BrokerEpoch is %d, it must not be negative", c.BrokerEpoch)
	case c.Send == nil:
		return c, invalid("Send is nil")
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Linger", &c.Linger, linger},
		{"Timeout", &c.Timeout, 5 * time.Second},
		{"MinPause", &c.MinPause, 20 * time.Millisecond},
		{"MaxPause", &c.MaxPause, time.Second},
	} {
		if *d.value < 0 {
			return c, invalid("%s is %s, it must not be negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.MinPause > c.MaxPause {
		return c, invalid("MinPause is %s, it must not exceed MaxPause, %s", c.MinPause, c.MaxPause)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Following is what a Reporter tells answers to. *follower.Following is one.
type Following interface {
	// Observe takes the leader's log end offset of an answer.
	Observe(leaderLEO int64)
	// Diverged says that the leader found the log's end outside its own log.
	Diverged()
	// WantsAnswers is the flag of B4.
	WantsAnswers() bool
	// LeaderEpoch is the leader epoch followed. Answers of another one are not told.
	LeaderEpoch() int32
}

// Reporter is the follower's end: it reports where the logs of all followed partitions end, each to its leader, one
// message at a time that carries what is new of many partitions, and tells the answers. All methods may be called
// concurrently.
type Reporter struct {
	cfg   ReporterConfig
	loops sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	counter uint64
	entries map[segment.PartitionKey]*entry
	links   map[int32]*link
}

// entry is one followed partition.
type entry struct {
	link      *link
	key       segment.PartitionKey
	partition segment.TopicIDPartition
	following Following
	log       follower.Log

	dirty bool   // stands in link.dirty
	added uint64 // the counter when it was added: what older messages bring is not for it
	sent  uint64 // the counter of the newest message that reports it, 0 if none
	told  uint64 // the counter of the newest message that brought an answer
	known Known

	// wait is when a report is repeated that was refused or diverged; failures counts them in a row.
	wait     deadline[*entry]
	failures int
}

// NewReporter returns a reporter. The error names the field that is wrong. Close it at the end.
func NewReporter(cfg ReporterConfig) (*Reporter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reporter{cfg: cfg, entries: map[segment.PartitionKey]*entry{}, links: map[int32]*link{}}, nil
}

// Add begins to report the partition to its leader, and tells f what comes back. It follows follower.Replicator.Follow,
// once for each handle that Follow returned; the partition's earlier handle is told no more. log is the same as Follow's;
// where it has a method Start() int64, the log start is reported too.
func (r *Reporter) Add(partition segment.TopicIDPartition, leaderID int32, f Following, log follower.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	key := partition.Key()
	if old := r.entries[key]; old != nil {
		r.remove(old, leaderID)
	}
	l := r.links[leaderID]
	if l == nil {
		l = r.newLink(leaderID)
		r.links[leaderID] = l
		r.loops.Go(l.run)
	}
	e := &entry{link: l, key: key, partition: partition, following: f, log: log, added: r.counter, known: nothingKnown}
	r.entries[key] = e
	l.entries[key] = e
	l.mark(e)
}

// Moved tells that the partition's log end has moved, up or down, or that what WantsAnswers says may have changed: the
// broker calls it after each append as follower and each truncation (B1), and from follower.Hooks.StateChanged (B4). It is
// cheap and never blocks. For a partition that is not reported it does nothing.
func (r *Reporter) Moved(partition segment.TopicIDPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[partition.Key()]
	if e == nil {
		return
	}
	e.link.waiting.clear(&e.wait)
	e.link.mark(e)
}

// Remove ends the reports of the partition. An answer that is just being told may still reach the handle that was added.
func (r *Reporter) Remove(partition segment.TopicIDPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[partition.Key()]; e != nil {
		r.remove(e, -1)
	}
}

// remove forgets an entry, and its link with the last one, unless that leads to the leader keep.
func (r *Reporter) remove(e *entry, keep int32) {
	l := e.link
	delete(r.entries, e.key)
	delete(l.entries, e.key)
	l.waiting.clear(&e.wait)
	e.link = nil
	if len(l.entries) == 0 && l.leaderID != keep {
		delete(r.links, l.leaderID)
		l.end()
	}
}

// Close ends all reports, cancels the messages under way and waits until they have returned. It may be called more than
// once.
func (r *Reporter) Close() {
	r.mu.Lock()
	r.closed = true
	for _, l := range r.links {
		l.end()
	}
	clear(r.links)
	clear(r.entries)
	r.mu.Unlock()
	r.loops.Wait()
}
