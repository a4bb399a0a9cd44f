//go:build race

package search

// raced says that the race detector is on, with which everything takes ten times as long.
const raced = true
