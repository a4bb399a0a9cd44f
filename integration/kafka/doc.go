// Package kafka starts real brokers of Apache Kafka for tests, and runs Kafka's own tools and kcat:
//
//	cluster := kafka.Start(t, kafka.Config{Brokers: 3})
//	admin := kadm.NewClient(cluster.Client(t))
//	cluster.Broker(2).Kill(t)
//	cluster.Broker(2).Start(t)
//
// The brokers are processes of the test: each listens on free ports of the loopback interface, keeps its files in the
// test's temporary directory, and ends with the test, also if the test binary is killed. One broker answers 3 s after it
// was started, and takes some 250 MB.
//
// The jars and kcat are installed by .ci/integration, which names them in the environment: WALHOP_KAFKA is the folder that
// has the jars in libs, WALHOP_KCAT the command. Java is found by PATH. A test fails where one of them is missing.
//
// Everything takes a testing.TB, fails it with what the processes have printed, and gives up after 2 minutes: kcat waits
// for ever on a partition without a leader, and so do some of the tools. The functions must be called on the goroutine of
// the test; clusters, clients and [Tools] are otherwise safe for concurrent use.
package kafka
