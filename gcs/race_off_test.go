//go:build !race

package gcs_test

// raceDetector tells whether the test runs under the race detector.
const raceDetector = false
