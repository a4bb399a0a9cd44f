package sim

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// watch ends the process with the stacks of all goroutines if stop is not called within limit of real time: a bubble
// that waits for a lock, or for something outside of it, hangs without a word (D5). It is called outside of the bubble.
func watch(name string, limit time.Duration) (stop func()) {
	timer := time.AfterFunc(limit, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Fprintf(os.Stderr, "%s\n", stacks)
		panic(fmt.Sprintf("sim: %s has not ended after %s", name, limit))
	})
	return func() { timer.Stop() }
}
