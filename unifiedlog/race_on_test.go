//go:build race

package unifiedlog_test

// raceDetector says that tests of every byte and every call leave most of them out: they have one goroutine.
const raceDetector = true
