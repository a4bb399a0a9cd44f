// Package contract holds what a partition's log is to do, as tests that each of the project's logs runs: the one in memory
// and the one on disk. A test function takes a [Kind], which makes such logs. What one log promises more than the other it
// proves by itself.
package contract
