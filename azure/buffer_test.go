package azure_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	fake "github.com/walhop/walhop/internal/fakes/azure"
)

// L7, W5: a buffer is its owner's again when the upload has returned, cancelled at whatever moment: the race detector sees
// no touch, and no object holds a byte that was written afterwards.
func TestBufferAfterACancelledUpload(t *testing.T) {
	server, url := serve(t, fake.Config{})
	manager := manage(t, config(url))
	data := make([]byte, 96<<10)
	cancelled := 0
	for i := range 1500 {
		for j := range data {
			data[j] = 1
		}
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(i%300)*2*time.Microsecond, cancel)
		if err := manager.UploadSegment(ctx, segment(t), data); err != nil {
			assert.ErrorIs(t, err, context.Canceled)
			cancelled++
		}
		for j := range data {
			data[j] = 2
		}
		timer.Stop()
		cancel()
	}
	assert.Greater(t, cancelled, 100, "hardly an upload was cancelled: the test proves nothing")
	for _, key := range server.Keys(bucket) {
		stored, _ := server.Object(bucket, key)
		if bytes.IndexByte(stored, 2) >= 0 || len(stored) != len(data) {
			t.Fatalf("%s holds %d bytes, some of them written after the upload had returned", key, len(stored))
		}
	}
}
