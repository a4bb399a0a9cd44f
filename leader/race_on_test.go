//go:build race

package leader_test

// scale is by what tests that move much data are made smaller: the race detector looks at every byte copied.
const scale = 16
