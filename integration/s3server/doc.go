// Package s3server holds the tests that prove s3 on a real server, whichever it is: the suites, faults included, raw
// requests that our fake in internal/fakes/s3 is compared by, what an operator runs, and examples/cluster. Each server has
// a package that calls them:
//
//	var server = s3server.Server{Server: integration.VersityGW, Limited: "limited"}
//
//	func TestConformance(t *testing.T) { server.Conformance(t) }
package s3server
