// Command broker runs three brokers in one process, which unmodified Kafka clients can use: each has a port on loopback, a
// directory of logs in Kafka's own format, and a zone that it pretends to be in. What a leader appends reaches the
// followers through a store, by walhop alone; between the brokers go fetch requests with offsets and without bytes.
//
//	go run ./examples/broker
//	go run ./examples/broker -dir /var/tmp/brokers -for 1h -store 's3://bucket/prefix?region=eu-central-1'
//
// README.md beside this file has sessions with kcat and with Kafka's own tools, and what is measured. The program ends by
// itself after -for, 10 minutes by default, or at an interrupt.
//
// It is an example, to be copied from: see README.md for what it leaves out. It must not lose data, though: what was
// acknowledged with acks=all is in the log of every leader that comes after.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/walhop/walhop/internal/openurl"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// settings are the flags.
type settings struct {
	dir, store, metadata string
	ports                string
	admin                int
	lasts                time.Duration
	minISR               int
	linger               time.Duration
	replicate            string
	unclean              bool
	topics               string
	measured             bool
}

func (s *settings) flags(flags *flag.FlagSet) {
	flags.StringVar(&s.dir, "dir", "", "where everything is kept, made if it is missing; empty for a temporary directory that is removed at the end")
	flags.StringVar(&s.store, "store", "", "URL of the store: file:///dir, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix; empty for files in -dir")
	flags.StringVar(&s.metadata, "metadata", "", "URL of the metadata log: file:///dir, kafka://host:port/topic; empty for files in -dir")
	flags.StringVar(&s.ports, "ports", "19092,19093,19094", "the brokers' ports on loopback, 0 for any that is free")
	flags.IntVar(&s.admin, "admin", 19099, "the port on loopback at which brokers are stopped and started, 0 for any that is free")
	flags.DurationVar(&s.lasts, "for", 10*time.Minute, "how long to run")
	flags.IntVar(&s.minISR, "min-isr", 2, "min.insync.replicas: with fewer in sync, acks=all is refused")
	flags.DurationVar(&s.linger, "linger", 10*time.Millisecond, "how long a leader collects for one segment")
	flags.StringVar(&s.replicate, "replicate", string(byStore), "walhop: through the store; fetch: by ordinary fetch alone, as in Kafka")
	flags.BoolVar(&s.unclean, "unclean", false, "let a replica that is not in sync lead when no other can, which loses records")
	flags.BoolVar(&s.measured, "measure", false, "print what README.md shows of latencies and traffic, and end; on -store too, if there is one")
	flags.StringVar(&s.topics, "topics", "", "topics to create, as name:partitions,... with three replicas each")
}

// check names the flag that is wrong.
func (s *settings) check() error {
	switch {
	case s.admin < 0 || s.admin > 65535:
		return fmt.Errorf("-admin is %d, want a port", s.admin)
	case s.lasts <= 0:
		return fmt.Errorf("-for is %s, want more than 0", s.lasts)
	case s.minISR < 1 || s.minISR > brokers:
		return fmt.Errorf("-min-isr is %d, want 1 to %d", s.minISR, brokers)
	case s.linger <= 0 || s.linger > 500*time.Millisecond:
		return fmt.Errorf("-linger is %s, want above 0 and at most 500ms", s.linger)
	case replication(s.replicate) != byStore && replication(s.replicate) != byFetch:
		return fmt.Errorf("-replicate is %q, want %s or %s", s.replicate, byStore, byFetch)
	}
	if _, err := parsePorts(s.ports); err != nil {
		return err
	}
	_, err := parseTopics(s.topics)
	return err
}

// brokers is how many there are.
const brokers = 3

func main() {
	var s settings
	s.flags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "broker: unknown argument, all settings are flags: see -help")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	err := run(ctx, os.Stdout, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}

// run is the whole program.
func run(ctx context.Context, out io.Writer, s settings) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	dir, remove, err := prepare(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if s.measured {
		return s.measure(ctx, out, dir)
	}
	cfg, place, err := s.cluster(dir)
	if err != nil {
		return err
	}
	c, err := newCluster(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.close()
	topics, _ := parseTopics(s.topics)
	for _, t := range topics {
		if _, err := c.controller.createTopic(t.Name, len(t.Partitions), brokers); err != nil && !errors.Is(err, errTopicExists) {
			return fmt.Errorf("-topics: %s: %w", t.Name, err)
		}
	}
	endpoint, err := serveAdmin(c, s.admin)
	if err != nil {
		return err
	}
	defer endpoint.close()

	fmt.Fprintf(out, "three brokers in %s, over %s\n", dir, place)
	for _, id := range c.ids {
		host, port := cfg.network.address(id)
		fmt.Fprintf(out, "broker %d in %s: %s\n", id, zone(id), net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	fmt.Fprintf(out, "state, stop and start: http://%s\n", endpoint.listener.Addr())
	fmt.Fprintf(out, "ends in %s, or at an interrupt\n", s.lasts)
	select {
	case <-ctx.Done():
	case <-time.After(s.lasts):
	}
	return nil
}

// prepare makes the directory, and returns what removes it if it is a temporary one.
func prepare(dir string) (path string, remove func() error, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "walhop-broker-")
		return path, func() error { return os.RemoveAll(path) }, err
	}
	if path, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(path, 0o750)
	}
	return path, func() error { return nil }, err
}

// cluster is the configuration that the flags make, and how the store is called.
func (s *settings) cluster(dir string) (cfg clusterConfig, place openurl.Location, err error) {
	if s.metadata == "" {
		events := filepath.Join(dir, "events")
		if err := os.MkdirAll(events, 0o750); err != nil {
			return cfg, place, err
		}
		s.metadata = (&url.URL{Scheme: "file", Path: events}).String()
	}
	events, err := openurl.ParseLog(s.metadata)
	if err != nil {
		return cfg, place, fmt.Errorf("-metadata: %w", err)
	}
	if s.store == "" {
		segments := filepath.Join(dir, "segments")
		if err := os.MkdirAll(segments, 0o750); err != nil {
			return cfg, place, err
		}
		s.store = (&url.URL{Scheme: "file", Path: segments}).String()
	}
	if place, err = openurl.Parse(s.store); err != nil {
		return cfg, place, fmt.Errorf("-store: %w", err)
	}
	ports, err := parsePorts(s.ports)
	if err != nil {
		return cfg, place, err
	}
	ids := []int32{0, 1, 2}
	logger := slog.Default()
	return clusterConfig{
		dir: dir, ids: ids, network: newTCP(ids, ports), logger: logger,
		replicate: replication(s.replicate), linger: s.linger, minISR: s.minISR, unclean: s.unclean,
		storage: func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error) {
			m, err := place.Open(ctx, objectstore.Config{Cluster: cluster, Seed: uint64(broker), Logger: logger.With("broker", broker)})
			if err != nil {
				return nil, err
			}
			// Connections are opened now, so that the first upload need not wait for them. A broker starts whatever the store
			// says.
			if err := m.Warm(ctx); err != nil {
				logger.Warn("the store does not answer as it should", "broker", broker, "err", err)
			}
			return m, nil
		},
		events: func(ctx context.Context, broker int32, epoch int64) (metadata.Log, error) {
			return events.Open(ctx, openurl.LogConfig{Broker: broker, BrokerEpoch: epoch, Logger: logger.With("broker", broker)})
		},
	}, place, nil
}

func parsePorts(text string) (ports []int, err error) {
	for field := range strings.SplitSeq(text, ",") {
		port, err := strconv.ParseUint(strings.TrimSpace(field), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("-ports: %q is no port", field)
		}
		ports = append(ports, int(port))
	}
	if len(ports) == 1 && ports[0] == 0 {
		return nil, nil
	}
	if len(ports) != brokers {
		return nil, fmt.Errorf("-ports has %d ports, want %d, or 0", len(ports), brokers)
	}
	return ports, nil
}

func parseTopics(text string) (topics []topic, err error) {
	if text == "" {
		return nil, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		name, count, ok := strings.Cut(field, ":")
		partitions := uint64(1)
		if ok {
			partitions, err = strconv.ParseUint(count, 10, 16)
		}
		if err != nil || partitions < 1 || partitions > maxPartitions || !legalName(name) {
			return nil, fmt.Errorf("-topics: %q is not name:partitions", field)
		}
		topics = append(topics, topic{Name: name, Partitions: make([]assignment, partitions)})
	}
	return topics, nil
}
