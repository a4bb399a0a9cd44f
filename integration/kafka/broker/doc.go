// Package broker has real clients use the three brokers of examples/broker: kcat, franz-go, and Kafka's own console
// producer, console consumer and producer performance tool; and has Kafka's tool judge the files that they leave.
package broker
