// Package broker has real, unmodified clients use the three brokers of examples/broker: kcat, franz-go, and Kafka's own
// console producer, console consumer, producer performance tool and topic tools. Each writes with every codec and every kind
// of acknowledgement, and each reads what the others have written; brokers are killed and restarted under their load, and
// Kafka's tool judges the files that they leave; and the sessions of the example's README are run as they stand there.
//
// .ci/integration builds the example and names it in WALHOP_BROKER. It runs on free ports of the loopback interface, keeps
// its files in the test's temporary directory, and ends with the test.
package broker
