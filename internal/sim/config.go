package sim

import (
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// clusterID is the id of every cluster here.
const clusterID = "sim"

// Config says what a cluster is made of. The zero value is three brokers with one partition on all of them.
type Config struct {
	// Seed decides every latency and fault.
	Seed uint64
	// Brokers is the number of brokers, 1 to 9, default 3; their ids are 1, 2, 3 and so on.
	Brokers int
	// Replicas names the replicas of each partition, the first of which leads. Default: one partition on all brokers.
	Replicas [][]int32
	// MinISR is min.insync.replicas, default 1.
	MinISR int
	// Spares is how many partitions can be created while the cluster runs, default 0.
	Spares int

	// Put and Get are the store's latencies, default S3ExpressPut and S3ExpressGet.
	Put, Get Latency
	// PublishLatency and DeliveryLatency are the means of the metadata topic, default 1 ms each.
	PublishLatency, DeliveryLatency time.Duration
	// LinkLatency is the mean time of a message between brokers, default 500 us. LinkTimeout is what a lost one costs its
	// sender, default 500 ms.
	LinkLatency, LinkTimeout time.Duration
	// SessionTimeout is how long the controller takes to notice that a broker is dead, default 2 s.
	SessionTimeout time.Duration
	// LagTimeMax is replica.lag.time.max.ms, default 30 s.
	LagTimeMax time.Duration
	// FlushEvery is how often brokers flush their logs; what is not flushed dies with the broker. Default 0: everything
	// survives, as it does when a process dies and not its machine.
	FlushEvery time.Duration
	// DiskLatency is the mean time of a follower's append, default 50 us.
	DiskLatency time.Duration
	// ReadLatency is the mean time of an uploader's read, default 0.
	ReadLatency time.Duration
	// ValueBytes is the size of a record's value, default 100.
	ValueBytes int

	// BatchRecords is how many records a batch has at most, default 1: how many it has is a function of its first record.
	BatchRecords int
	// TruncatesFirst makes brokers ask a new leader where the logs part and truncate before they follow it, by turns, as
	// Kafka's did before the ordinary fetch told.
	TruncatesFirst bool

	// Store, Leader, Follower, Tracker, Reporter and Sweeper change the configuration of the parts of one broker. All may
	// be nil. Without a Sweeper there is no retention.
	Store    func(broker int32, cfg *objectstore.Config)
	Leader   func(broker int32, cfg *leader.Config)
	Follower func(broker int32, cfg *follower.Config)
	Tracker  func(broker int32, cfg *replica.TrackerConfig)
	Reporter func(broker int32, cfg *replica.ReporterConfig)
	Sweeper  func(broker int32, cfg *retention.Config)

	// StoreTellsNoTime makes the store tell no time of storing.
	StoreTellsNoTime bool

	// Hasty makes brokers let a new Follow or Lead end the older one, by turns, where they need not Stop or Resign first.
	Hasty bool

	// Break takes guards of the broker's own parts away.
	Break Break
	// ExpectPanics says that a panic contained by walhop is part of the story.
	ExpectPanics bool
	// Records is how many records producers send at most, together; default: no bound.
	Records int64

	// quiet keeps everything from failing the test: what is wrong is a violation, and ends the story.
	quiet bool
	// ExpectViolations keeps violations from failing the test; Cluster.Violations returns them.
	ExpectViolations bool
}

// Break names guards that a broker keeps beside walhop. Each is taken away by the scenario that shows what it is for.
type Break struct {
	// FetchAsksNothing makes FetchFromLeader return nil without asking if the log's end has reached the range's (S1).
	FetchAsksNothing bool
	// FetchEndsDiverged makes FetchFromLeader return nil after a last answer that diverged (S1).
	FetchEndsDiverged bool
	// IgnoreExpectedOffset makes the log append like Kafka's own: anything at or above its end (C5).
	IgnoreExpectedOffset bool
	// NoReportChecks makes the leader take the offset of every report, diverging or not (B3).
	NoReportChecks bool
	// OverwrittenSample makes the leader judge who is caught up as Kafka does, by a sample that each report overwrites
	// (B2).
	OverwrittenSample bool
	// HighWatermarkOfISR makes the high watermark wait for the ISR alone (B2).
	HighWatermarkOfISR bool
	// OldReportsCount makes the leader go by what a follower reported before it restarted (KIP-903).
	OldReportsCount bool
	// AnswersPark keeps the flag of B4 from the leader: nothing asks for an answer through a fallback.
	AnswersPark bool
	// EpochsRepeat makes a leader that restarts lead on in the same epoch (B6).
	EpochsRepeat bool
}

func (c Config) withDefaults() Config {
	if c.Brokers == 0 {
		c.Brokers = 3
	}
	if c.Replicas == nil {
		var all []int32
		for b := range c.Brokers {
			all = append(all, int32(b+1))
		}
		c.Replicas = [][]int32{all}
	}
	if c.MinISR == 0 {
		c.MinISR = 1
	}
	if c.Put == (Latency{}) {
		c.Put = S3ExpressPut
	}
	if c.Get == (Latency{}) {
		c.Get = S3ExpressGet
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&c.PublishLatency, time.Millisecond},
		{&c.DeliveryLatency, time.Millisecond},
		{&c.LinkLatency, 500 * time.Microsecond},
		{&c.LinkTimeout, 500 * time.Millisecond},
		{&c.SessionTimeout, 2 * time.Second},
		{&c.LagTimeMax, 30 * time.Second},
		{&c.DiskLatency, 50 * time.Microsecond},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.ValueBytes == 0 {
		c.ValueBytes = 100
	}
	return c
}
