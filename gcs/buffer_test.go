package gcs_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
)

// googleapis/google-cloud-go#6816, googleapis/google-cloud-go#1161, googleapis/google-cloud-go#4167, L7, W5, W1: a buffer
// is its owner's again when the upload has returned, cancelled at whatever moment.
func TestBufferAfterACancelledUpload(t *testing.T) {
	drivertest.BufferAfterACancelledUpload(t, subject())
}
