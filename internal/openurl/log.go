package openurl

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// The variables of the environment that hold the credentials for a Kafka cluster.
const (
	kafkaUser     = "KAFKA_SASL_USERNAME"
	kafkaPassword = "KAFKA_SASL_PASSWORD"
)

// LogConfig is what a program adds to the URL of a metadata log.
type LogConfig struct {
	// Broker is the id of the broker whose events are published, 0 or greater.
	Broker int32
	// BrokerEpoch is its epoch, 0 or greater, never used before by a process that published.
	BrokerEpoch int64
	// Hooks observe the log.
	Hooks metadata.Hooks
	// Logger gets what an operator should see. Default none.
	Logger *slog.Logger
}

// LogLocation is the URL of a metadata log that was understood. Its zero value is no location: [ParseLog] makes one.
type LogLocation struct {
	at    Location
	seeds []string // of a Kafka cluster
}

// logSchemes returns every kind of metadata log.
func logSchemes() []scheme {
	return []scheme{
		{name: "file", form: "file:///dir", credentials: "a directory has none"},
		{
			name: "kafka", form: "kafka://host:port/topic",
			credentials: "credentials are no part of a URL, they come from " + kafkaUser + " and " + kafkaPassword,
			parameters: map[string]func(string) string{
				"partitions": count, "replication_factor": count, "min_insync_replicas": count, "rack": printable, "tls": boolean, "sasl": mechanism,
			},
		},
	}
}

// ParseLog takes the URL of a metadata log apart and checks all that can be checked without it. Its errors are like those
// of [Parse].
func ParseLog(text string) (LogLocation, error) {
	at, u, err := begin("metadata log URL", logSchemes(), text)
	if err != nil {
		return LogLocation{}, err
	}
	l := LogLocation{at: at}
	if at.scheme.name == "file" {
		err = l.at.place(u)
	} else {
		err = l.cluster(u)
	}
	if err == nil {
		err = l.at.take(u.RawQuery)
	}
	if err != nil {
		return LogLocation{}, err
	}
	return l, nil
}

// cluster takes the brokers and the topic.
func (l *LogLocation) cluster(u *url.URL) error {
	l.seeds = strings.Split(u.Host, ",")
	for _, seed := range l.seeds {
		host, port, found := strings.Cut(seed, ":")
		if strings.HasPrefix(seed, "[") { // an IPv6 address
			host, port, found = strings.Cut(strings.TrimPrefix(seed, "["), "]")
			port = strings.TrimPrefix(port, ":")
		}
		switch number, err := strconv.Atoi(port); {
		case host == "":
			return l.at.invalid("the broker is missing")
		case name(strings.NewReplacer(".", "", ":", "").Replace(host)) != "":
			return l.at.invalid("a broker has something else in its name than letters, digits, dots, - and _")
		case found && port != "" && (err != nil || number < 1 || number > 65535):
			return l.at.invalid("a broker's port is no number from 1 to 65535")
		}
	}
	l.at.path = strings.TrimPrefix(u.Path, "/")
	if strings.Contains(l.at.path, "/") || name(strings.ReplaceAll(l.at.path, ".", "")) != "" || len(l.at.path) > 249 || l.at.path == "." || l.at.path == ".." {
		return l.at.invalid("the topic is no name of at most 249 letters, digits, dots, - and _")
	}
	return nil
}

// String returns the URL without its parameters, for messages.
func (l LogLocation) String() string {
	if len(l.seeds) == 0 {
		return l.at.String()
	}
	topic := l.at.path
	if topic == "" {
		topic = kafkalog.DefaultTopic
	}
	return l.at.scheme.name + "://" + strings.Join(l.seeds, ",") + "/" + topic
}

// Log opens the metadata log at a URL. The error is that of [ParseLog], or that of the log's own constructor.
func Log(ctx context.Context, url string, config LogConfig) (metadata.Log, error) {
	l, err := ParseLog(url)
	if err != nil {
		return nil, err
	}
	return l.Open(ctx, config)
}

// Open opens the metadata log. It may be called more than once, for each broker of a program.
func (l LogLocation) Open(ctx context.Context, config LogConfig) (metadata.Log, error) {
	switch l.at.scheme.name {
	case "file":
		log, err := filelog.New(ctx, filelog.Config{
			Dir: l.at.path, Broker: config.Broker, BrokerEpoch: config.BrokerEpoch, Hooks: config.Hooks, Logger: config.Logger,
		})
		if err != nil {
			return nil, err // and no interface around a nil *filelog.Log
		}
		return log, nil
	case "kafka":
		opts, err := l.clientOptions()
		if err != nil {
			return nil, err
		}
		log, err := kafkalog.Open(ctx, kafkalog.Config{
			Seeds: l.seeds, Opts: opts, Topic: l.at.path,
			Partitions: int32(l.number("partitions")), ReplicationFactor: int16(l.number("replication_factor")),
			MinInSyncReplicas: l.number("min_insync_replicas"), Rack: l.at.parameters["rack"],
			Broker: config.Broker, BrokerEpoch: config.BrokerEpoch, Hooks: config.Hooks, Logger: config.Logger,
		})
		if err != nil {
			return nil, err
		}
		return log, nil
	}
	return nil, invalid("metadata log URL", "it is empty")
}

// number returns the value of a parameter that is a count, 0 where it is not given.
func (l LogLocation) number(name string) int {
	n, _ := strconv.Atoi(l.at.parameters[name])
	return n
}

// clientOptions says how the client connects.
func (l LogLocation) clientOptions() (opts []kgo.Opt, err error) {
	if l.at.flag("tls") {
		opts = append(opts, kgo.DialTLS())
	}
	user, password := os.Getenv(kafkaUser), os.Getenv(kafkaPassword)
	var how sasl.Mechanism
	switch l.at.parameters["sasl"] {
	case "":
		return opts, nil
	case "plain":
		how = plain.Auth{User: user, Pass: password}.AsMechanism()
	case "scram-sha-256":
		how = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "scram-sha-512":
		how = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	if user == "" || password == "" {
		return nil, l.at.invalid("parameter sasl is there, and %s or %s is not set", kafkaUser, kafkaPassword)
	}
	return append(opts, kgo.SASL(how)), nil
}

// count is a number from 1 to 10,000.
func count(value string) string {
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > 10_000 {
		return "is no number from 1 to 10000"
	}
	return ""
}

// mechanism is one of SASL.
func mechanism(value string) string {
	switch value {
	case "plain", "scram-sha-256", "scram-sha-512":
		return ""
	}
	return "is none of plain, scram-sha-256, scram-sha-512"
}
