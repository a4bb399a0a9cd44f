package gcs_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
)

// J15 (W8): StallTimeout is for an answer in which nothing moves. A list that comes slowly is waited for, one that stops is
// not.
func TestSlowList(t *testing.T) {
	drivertest.SlowList(t, ours, config(""), [5]string{`{"kind":`, `"storage#`, `objects"`, `,"items":`, `[]}`})
}
