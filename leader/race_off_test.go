//go:build !race

package leader_test

// scale is by what tests that move much data are made smaller: with the race detector it is greater.
const scale = 1
