// Package broker uses examples/broker with real, unmodified clients: kcat, franz-go, and Kafka's own console producer,
// console consumer and producer performance tool. Each writes with every codec and every kind of acknowledgement, and each
// reads what the others have written; brokers are killed under their load; and the sessions of the example's README are
// run as they stand there.
//
// .ci/integration builds the example and names it in WALHOP_BROKER. It runs on free ports of the loopback interface, keeps
// its files in the test's temporary directory, and ends with the test; if the test binary is killed, within 5 minutes.
package broker
