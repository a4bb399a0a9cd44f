package unifiedlog_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
)

// An append of a batch and a read that goes on where the one before ended allocate nothing, but for a buffer now and then.
func TestNothingIsAllocatedPerBatch(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	log := logs64(t, t.TempDir())[0]
	ctx := context.Background()
	raw, offset := batchtest.Sized(0, 1, sliceBytes, 'x'), int64(0)
	assert.Zero(t, testing.AllocsPerRun(200, func() {
		binary.BigEndian.PutUint64(raw, uint64(offset))
		if log.AppendAsFollower(ctx, 1, offset, raw) != nil {
			t.Fail()
		}
		offset++
	}), "as a follower")

	spec := batchtest.NewSpec(0, 0, "x")
	spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = 7, 0, 0
	raw = spec.Bytes()
	assert.Zero(t, testing.AllocsPerRun(200, func() {
		if _, err := log.AppendAsLeader(ctx, 2, raw); err != nil {
			t.Fail()
		}
		binary.BigEndian.PutUint32(raw[53:], binary.BigEndian.Uint32(raw[53:])+1)
		batch.SetCRC(raw)
	}), "as the leader, of an idempotent producer")

	dst, at := make([]byte, sliceBytes), int64(0)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		if n, err := log.Read(ctx, at, dst); n != len(dst) || err != nil {
			t.Fail()
		}
		at++
	}), float64(4), "a read: the header that is looked at, and where it ended")
}
