//go:build !race

package filelog_test

const raceEnabled = false
