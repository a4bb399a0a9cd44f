package s3_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
)

// L7, W5, W1: a buffer is its owner's again when the upload has returned, cancelled at whatever moment.
func TestBufferAfterACancelledUpload(t *testing.T) {
	drivertest.BufferAfterACancelledUpload(t, subject())
}
