// Package search goes through everything that can happen to a small cluster, breadth first: two or three brokers, a few
// epochs and records, every order of events, and calls the real code of leader and follower in every state.
//
// Real are what follower and leader decide (package decide), metadata.Store with its eviction, segment.Builder, Reader and
// VerifySlice, and the log of unifiedlog/memory with its fence, its truncation and the leader's check of a fetch. They
// decide by what they are given alone, so that a call with the same content is made once and remembered. A model are the
// controller, the ISR and the high watermark, reports, the order of events, crashes, and that all that a leader ever wrote
// in its epoch counts as published for ever. Time is not in it: whatever may happen after a while may happen at once, so a
// search says nothing of how long things take.
//
// There are two ways to search. In the first one a follower may at any time be told of any run that the leader of its
// epoch ever wrote, which is worse than every order of events, losses and repetitions (Config's zero value). In the second
// one uploader and Store are followed call by call ([Config.StepByStep]).
//
// One loss is known and is Kafka's own: a replica that begins anew at a leader's log start without epochs from the tier
// knows no epoch, so the leader of another history, after an unclean election, can't check what lies below (B3), and takes
// it into the ISR. With three brokers, Starts and Unclean the search finds it in 13 steps.
//
// The tests search small configurations to the end, and take each guard away in turn. More is searched with
//
//	go test ./internal/search -run TestLarger -large -v -timeout 0 [-states N]
package search
