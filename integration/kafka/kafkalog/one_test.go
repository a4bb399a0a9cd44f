package kafkalog

import (
	"testing"

	"github.com/walhop/walhop/integration/kafka"
)

// A metadata log on one broker, as a developer has it.
func TestOneBroker(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *kafka.Cluster)
	}{
		{"suite", testConformance},
		{"latency", testLatency},
		{"kill", testKill},
		{"retention", testRetention},
		{"throttled", testThrottled},
		{"damaged", testDamaged},
		{"created again", testCreatedAgain},
		{"partitions added", testPartitionsAdded},
		{"rivals", testRivals},
		{"first start", testFirstStart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, cluster) })
	}
}

// A metadata log with three replicas.
func TestThreeBrokers(t *testing.T) {
	cluster := kafka.Start(t, kafka.Config{Brokers: 3})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *kafka.Cluster)
	}{
		{"suite", testConformance},
		{"own zone", testOwnZone},
		{"leadership moves", testLeadershipMoves},
		{"kill", testKill},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, cluster) })
	}
}
