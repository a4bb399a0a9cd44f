package memory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/unifiedlog/memory"
)

type epochs = []memory.EpochStart

// What a real broker wrote goes in and comes out byte for byte, led epoch by epoch as that broker led, and the epochs are
// those that it wrote down.
func TestRealSegments(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		t.Run(topic.Name, func(t *testing.T) {
			log, _ := newLog(t, topic.Segments[0].BaseOffset)
			var starts epochs
			for _, run := range topic.Runs() {
				start, err := log.Lead(run.Epoch)
				require.NoError(t, err)
				assert.Equal(t, run.Start, start)
				require.NoError(t, log.AppendRaw(t.Context(), run.Log))
				starts = append(starts, memory.EpochStart{Epoch: run.Epoch, Start: run.Start})
			}
			assert.Equal(t, topic.Log(), log.Bytes(0))
			assert.Equal(t, starts, log.Epochs())
			last := topic.Batches[len(topic.Batches)-1]
			end(t, log, last.LastOffset+1, last.LeaderEpoch)
		})
	}
}
