package s3server

import (
	"testing"

	"github.com/walhop/walhop/integration"
)

// Check runs what an operator runs before a cluster is switched to a store, which finds nothing.
func (s Server) Check(t *testing.T) {
	url := s.Address(t)
	c := s.config(url, newBucket(t, url))
	integration.Check(t, ours.Manage(t, c), ours.Manage(t, c))
}
