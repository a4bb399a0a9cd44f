// Package protocols tells what conformance.RunFaults has to know of the protocols of Amazon S3, Google Cloud Storage and
// Azure Blob Storage: what a request asks for, what in an upload is the segment, and in which words a server says what goes
// wrong. The tests of the three drivers use it on our fakes, and those of package integration on real servers.
//
// What a driver may send (the headers of a request) and how it is opened is not of the protocol, and stands beside the
// driver.
package protocols
