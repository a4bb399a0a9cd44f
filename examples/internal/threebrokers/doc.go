// Package threebrokers is what the programs quickstart and cluster have in common: three brokers in one process, each in a
// zone of its own, over one shared store. Every partition's leader combines what it appends into small segments, stores
// them there and announces them, and two followers fetch and append them.
//
// [Run] first replays log segments that a real Apache Kafka broker wrote, then produces at a given rate, shows how long the
// records took and what the way through an object store would cost, and compares every follower's log with its leader's,
// byte for byte.
//
// broker.go is what a broker's author would copy: how the parts are put together, and which call goes where. It uses public
// packages of walhop only. Beside it, cluster.go is the controller, network.go the network between the brokers, produce.go
// and replay.go the producers, batches.go the little that has to be known of a record batch, table.go and result.go what is
// printed.
package threebrokers
