package kafka

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// log4j2 makes a broker print its log.
//
//go:embed log4j2.yaml
var log4j2 []byte

// defaults are the settings of every broker beside those of its place in the cluster.
var defaults = map[string]string{
	"process.roles":                                    "broker,controller",
	"controller.listener.names":                        "CONTROLLER",
	"inter.broker.listener.name":                       "PLAINTEXT",
	"auto.create.topics.enable":                        "false",
	"offsets.topic.num.partitions":                     "1",
	"transaction.state.log.num.partitions":             "1",
	"share.coordinator.state.topic.num.partitions":     "1",
	"group.initial.rebalance.delay.ms":                 "0",
	"replica.selector.class":                           "org.apache.kafka.common.replica.RackAwareReplicaSelector",
	"num.network.threads":                              "2",
	"num.io.threads":                                   "4",
	"log.cleaner.dedupe.buffer.size":                   "2097152",
	"min.insync.replicas":                              "1",
	"log.retention.ms":                                 "-1", // records may be old, whatever the clock says
	"log.segment.delete.delay.ms":                      "500",
	"log.initial.task.delay.ms":                        "500",
	"log.retention.check.interval.ms":                  "500", // so that a test of retention takes seconds and not minutes
	"broker.heartbeat.interval.ms":                     "500",
	"broker.session.timeout.ms":                        "3000", // after kill -9 it is as long as this until there is a new leader
	"controller.quorum.fetch.timeout.ms":               "2000",
	"controller.quorum.election.timeout.ms":            "500",
	"listener.security.protocol.map":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
	"listener.name.sasl.sasl.enabled.mechanisms":       "PLAIN",
	"listener.name.sasl.plain.sasl.jaas.config":        fmt.Sprintf(`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, User, Password),
	"authorizer.class.name":                            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users":                                      "User:ANONYMOUS",
	"transaction.state.log.replication.factor":         "1",
	"transaction.state.log.min.isr":                    "1",
	"offsets.topic.replication.factor":                 "1",
	"share.coordinator.state.topic.replication.factor": "1",
	"share.coordinator.state.topic.min.isr":            "1",
}

// properties writes settings as a file of a Java program.
func properties(settings ...map[string]string) []byte {
	all := make(map[string]string)
	for _, some := range settings {
		maps.Copy(all, some)
	}
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = fmt.Appendf(out, "%s=%s\n", name, all[name])
	}
	return out
}

// newUUID returns an id as Kafka writes it. It begins with no "-", which a tool would take for an option.
func newUUID() string {
	for {
		id := uuid.New()
		if text := base64.RawURLEncoding.EncodeToString(id[:]); !strings.HasPrefix(text, "-") {
			return text
		}
	}
}

// freePort returns a port of the loopback interface nobody listens on. It is below those that connections are given, so
// that it stays free while its broker is restarted: a client that tries to connect meanwhile could even get it as its
// own end, and would have connected to itself.
func freePort() int {
	for {
		port := 20000 + rand.IntN(12000)
		if listener, err := net.Listen("tcp", address(port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
