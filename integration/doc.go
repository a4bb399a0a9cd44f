// Package integration runs the suites of package conformance against real servers: versitygw for S3, fake-gcs-server for
// Google Cloud Storage, Azurite for Azure, Apache Kafka for the metadata log. It is a module of its own, so that what only
// these tests need stays out of the library's. `make integration` in the folder above installs the servers, starts them
// and runs everything here:
//
//	make integration
//
// SeaweedFS, a second server for S3, is used only where it is named, since it takes minutes to compile and to run:
//
//	make integration SERVERS=seaweedfs
//
// Each server has a package of tests, Kafka has several below kafka. Its address comes from the environment
// ([Server.Address]); a test whose server is not named there fails, and nothing is skipped for want of one. The brokers of
// Kafka are started by the tests themselves, which kill and restart them: see package kafka here.
//
// # Gaps
//
// gaps.txt holds every case that a server cannot pass, and every difference between a server and our fake of the same
// store in internal/fakes, each with its reason. The tests hold it to be complete and without a line too many: the fakes
// are as good as the servers but for what stands there. See [Gaps].
package integration
