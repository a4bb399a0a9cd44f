package seaweedfs

import (
	"testing"
	"time"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/integration/s3server"
)

// Who wants to create or delete an object that somebody else is about to waits in the server, which looks once a second
// whether it is free, and goes on waiting after the request was given up. So requests that are given up and repeated, as
// those of the suite's races would be after the default of 10 s, add to what they wait for.
var server = s3server.Server{
	Server: integration.SeaweedFS, Limited: "arn:aws:iam::000000000000:user/limited", Patience: time.Minute,
}

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
