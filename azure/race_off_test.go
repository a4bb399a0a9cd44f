//go:build !race

package azure_test

// raceDetector tells whether the test runs under the race detector.
const raceDetector = false
