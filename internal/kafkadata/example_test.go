package kafkadata_test

import (
	"fmt"

	"github.com/walhop/walhop/internal/kafkadata"
)

// A log that was led in four epochs.
func Example() {
	for _, topic := range kafkadata.Topics() {
		if topic.Name != "epochs" {
			continue
		}
		for _, run := range topic.Runs() {
			fmt.Printf("epoch %d: offsets %d to %d, %d bytes\n", run.Epoch, run.Start, run.End-1, len(run.Log))
		}
	}
	// Output:
	// epoch 0: offsets 0 to 3, 224 bytes
	// epoch 2: offsets 4 to 7, 224 bytes
	// epoch 4: offsets 8 to 11, 224 bytes
	// epoch 6: offsets 12 to 15, 224 bytes
}
