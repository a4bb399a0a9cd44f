// Package memlog is a metadata log in memory: the reference that the other logs are measured by, and the one for tests
// and simulations.
//
// A [Topic] stands for what is shared, a [Log] is one broker's handle on it. Faults are scripted by functions that are
// asked at each publication and each delivery: delay, loss, repetition, corruption, an unknown outcome, a rejection,
// events of different brokers out of order. Asked with the same numbers in the same order they give the same run, so
// let them depend on nothing else (D2).
//
// A topic has no goroutines of its own, keeps no lock while it waits, and works in a testing/synctest bubble. Nothing
// in it survives the process.
package memlog
