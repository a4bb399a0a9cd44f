// Package sim runs a small cluster of the real leader, follower, replica, retention, objectstore and metadata code over
// memory parts, under the virtual time of testing/synctest. A scenario reads as a story: elect, produce, take the store
// away, kill, wait, look.
//
// A cluster has brokers, each with a disk per partition that survives a crash as far as it was flushed, a controller
// that elects leaders and keeps the ISR, links between brokers, producers, and a store and a metadata log with weather.
// What a broker must do beside walhop (B1 to B6) is in this package, in Kafka's own manner: the ordinary fetch with
// truncation inside it, the checks of every report, the high watermark, the ISR. What walhop does is the code of the
// other packages and nothing else.
//
// Every run is repeatable (D2, D3): whatever takes time takes it as a pure function of (seed, actor, operation number),
// and every actor has instants of its own, so that no two events share one, whatever order the scheduler runs goroutines
// in. What a run did is a [Trace], of which only the hash is kept whole. A watchdog in real time ends a run that hangs
// with the stacks of its goroutines (D5).
//
// While a cluster runs, the truth about each partition is kept beside it: what the leader of each epoch wrote, which
// records were acknowledged. Each append of a follower is held against it, so that a wrong byte, a hole, a diverged log
// or a lost acknowledged record is a violation at the moment it happens. The scenarios that take a guard away on purpose
// show that it would be seen.
//
// A [Plan] is the story of a seed: the shape of a cluster, the bounds of its parts, and steps that come one after the other
// whatever the cluster has come to. TestSeeds runs many of them and counts what they have reached; what none has reached
// is a defect of the simulator. A seed that fails is shrunk to the few steps that it takes.
//
//	go test ./internal/sim -run TestSeeds -seeds=10000 -timeout 60m -v
//	go test ./internal/sim -run TestSeeds -seed=42 -v
package sim
