package versitygw

import (
	"testing"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/integration/s3server"
)

var server = s3server.Server{Server: integration.VersityGW, Limited: "limited"}

func TestMain(m *testing.M) { server.Main(m) }

// Segments keep every rule that the suite checks, W1 to W12.
func TestConformance(t *testing.T) { server.Conformance(t) }

// What networks do to requests does not harm them.
func TestFaults(t *testing.T) { server.Faults(t) }

// The server answers as our fake does, and as Amazon S3.
func TestProbes(t *testing.T) { server.Probes(t) }

// What an operator runs before a cluster is switched to a store finds nothing.
func TestCheck(t *testing.T) { server.Check(t) }

// Three brokers over a bucket replicate everything, without a difference.
func TestCluster(t *testing.T) { server.Cluster(t) }
