// Package kafkalog proves the metadata log on a topic of real Kafka brokers: the suite of package conformance, brokers that
// are killed and restarted, leaderships that move, records that retention deletes, a topic that is created again, clusters
// that cannot be used, what an event takes from its publication to a subscriber, and examples/cluster on such a log.
package kafkalog
