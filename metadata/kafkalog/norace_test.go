//go:build !race

package kafkalog_test

import "time"

// patience is how long a test waits for something that is to come to nothing. Before that at least one attempt has to be
// made, on a busy machine too.
const patience = 500 * time.Millisecond
