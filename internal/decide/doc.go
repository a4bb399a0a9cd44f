// Package decide holds what a follower and a leader decide about the bytes of a partition: whether an entry continues the
// log, what the gate does after an answer, what becomes of bytes that a Lead has read. The functions see values only: no
// clock, no lock, no goroutine, no store. So what package follower and package leader run is also what package search
// calls in every state that it can reach.
package decide
