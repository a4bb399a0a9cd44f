//go:build race

package drivertest

// Race tells whether the tests run under the race detector.
const Race = true
