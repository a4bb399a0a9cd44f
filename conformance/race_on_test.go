//go:build race

package conformance

// raceDetector tells whether the test runs under the race detector.
const raceDetector = true
