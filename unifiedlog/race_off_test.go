//go:build !race

package unifiedlog_test

const raceDetector = false
