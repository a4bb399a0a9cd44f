package drivertest

import (
	"net/http"
	"slices"
	"testing"
)

// Headers proves that a request has all of those that it must have, and else only those that it may have.
func Headers(t *testing.T, op string, header http.Header, may, must []string) {
	t.Helper()
	for _, name := range must {
		if header.Get(name) == "" {
			t.Errorf("%s: no header %s", op, name)
		}
	}
	for name := range header {
		if !slices.Contains(may, name) && !slices.Contains(must, name) {
			t.Errorf("%s: header %s: %q", op, name, header.Get(name))
		}
	}
}
