//go:build !race

package s3_test

// raceDetector tells whether the test runs under the race detector.
const raceDetector = false
