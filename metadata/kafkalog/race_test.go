//go:build race

package kafkalog_test

import "time"

// patience is how long a test waits for something that is to come to nothing. Before that at least one attempt has to be
// made, under the race detector too.
const patience = 1500 * time.Millisecond
