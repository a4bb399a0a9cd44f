// Command cluster runs the three brokers of the quickstart over any store: they replay log segments that a real Apache
// Kafka broker wrote, produce at a given rate, replicate through the store, and at the end every follower's log is
// compared with its leader's, byte for byte.
//
//	go run ./examples/cluster                              # a temporary directory
//	go run ./examples/cluster -store file:///mnt/shared    # a directory that exists
//	go run ./examples/cluster -store 's3://bucket/prefix?region=eu-central-1'
//	go run ./examples/cluster -store 's3://bucket?endpoint=http://127.0.0.1:9000&path_style=true'
//	go run ./examples/cluster -store gs://bucket/prefix
//	go run ./examples/cluster -store 'azblob://container/prefix?account=name'
//	go run ./examples/cluster -metadata kafka://127.0.0.1:9092
//	go run ./examples/cluster -metadata 'kafka://127.0.0.1:9092?replication_factor=1' -store s3://bucket
//	go run ./examples/cluster -metadata file:///mnt/shared/events
//
// What a URL may have in it, and which variables of the environment hold the credentials, is told by
// go doc ./internal/openurl. The segments are announced in a temporary directory, unless -metadata names another one or a
// topic of a Kafka cluster. There the events of the run stay until their retention is over: they are of a cluster of its
// own, which no other run looks at.
//
// # What it does to a bucket
//
// The bucket has to exist. Each run is a cluster with an id of its own, so all of its objects lie below
// <prefix>/<id>/, which the first line names, and it reads and deletes nothing else. First it lists them, deletes one that
// is not there, and makes, reads, lists and deletes one, so that a wrong name or a missing permission is told before
// anything else, and nothing is left where deletes are refused. Then it stores up to 100 segments a second and broker, and
// fetches each twice. At the end, and after an interrupt or an error too, it deletes what it has stored, which takes at
// most a minute. A second interrupt ends it at once; then what lies there can be deleted by hand. In a directory, the
// folders of the run stay, empty.
//
// # What counts as an error
//
// A follower's log that differs is one, and so is a store that did not take part: nothing came through it, or it answered
// with an error that is no slowness, such as a refusal. Slowness is none. Where the store, or the way to it, cannot keep
// up with -rate, walhop does what it is made for: leaders skip forward, followers fetch from their leaders what did not
// come in time, and no record is lost or late for long. The quickstart demands that 95 % come through the store, since
// nothing should be slow on one machine; here a smaller share is said in a line of its own with the latencies beside it,
// and the exit code stays 0. From another continent, or with a -rate above what the connection carries, it is to be
// expected.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/examples/internal/threebrokers"
	"github.com/walhop/walhop/internal/openurl"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// settings are the flags.
type settings struct {
	store    string
	metadata string
	load     threebrokers.Load
}

func main() {
	// What is produced goes up to the store once and comes down twice. A lower rate would cost more through the store than
	// across zones.
	s := settings{load: threebrokers.Load{Duration: 4 * time.Second, Rate: 12, Partitions: 12, Linger: 10 * time.Millisecond}}
	flag.StringVar(&s.store, "store", "", "URL of the store: file:///dir, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix; empty for a temporary directory")
	flag.StringVar(&s.metadata, "metadata", "", "URL of the metadata log: file:///dir, kafka://host:port/topic; empty for a temporary directory")
	s.load.Flags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "cluster: unknown argument, all settings are flags: see -help\n")
		os.Exit(2)
	}

	// The first interrupt ends production and lets what is on its way arrive; a second one ends the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Stdout, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// attemptTimeout is longer than the Manager's default, which is made for brokers in the store's region: this program may
// run at a desk far away.
const attemptTimeout = 2 * time.Second

// run is the whole program. The error says what went wrong, or what is wrong with the result.
func run(ctx context.Context, out io.Writer, s settings) (err error) {
	if err := s.load.Check(); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "walhop-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	segments, announcements := filepath.Join(temporary, "segments"), filepath.Join(temporary, "events")
	for _, sub := range []string{segments, announcements} {
		if err := os.Mkdir(sub, 0o750); err != nil {
			return err
		}
	}
	if s.store == "" {
		s.store = (&url.URL{Scheme: "file", Path: segments}).String()
	}
	location, err := openurl.Parse(s.store)
	if err != nil {
		return fmt.Errorf("-store: %w", err)
	}
	if s.metadata == "" {
		s.metadata = (&url.URL{Scheme: "file", Path: announcements}).String()
	}
	events, err := openurl.ParseLog(s.metadata)
	if err != nil {
		return fmt.Errorf("-metadata: %w", err)
	}
	id := "walhop-cluster-" + uuid.NewString()

	// A handle of its own, beside those of the brokers, for what comes first and last.
	own, err := location.Open(ctx, objectstore.Config{Cluster: id, AttemptTimeout: attemptTimeout})
	if err != nil {
		return fmt.Errorf("%s: %w", location, err)
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	if err := probe(ctx, own, id); err != nil {
		return fmt.Errorf("%s: %w", location, err)
	}

	var requests requests
	result, err := threebrokers.Run(ctx, out, threebrokers.Config{
		Load: s.load, Cluster: id, Place: fmt.Sprintf("%s, as cluster %s", location, id),
		Announcements: func(ctx context.Context, broker int32, epoch int64, logger *slog.Logger) (metadata.Log, error) {
			log, err := events.Open(ctx, openurl.LogConfig{Broker: broker, BrokerEpoch: epoch, Logger: logger})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", events, err)
			}
			return log, nil
		},
		Store: func(ctx context.Context, config objectstore.Config) (*objectstore.Manager, error) {
			config.AttemptTimeout = attemptTimeout
			config.Hooks = requests.hooks()
			return location.Open(ctx, config)
		},
	})
	if err == nil {
		requests.table(out)
	}
	deleted, left := cleanUp(context.WithoutCancel(ctx), own)
	fmt.Fprintf(out, "deleted %d segments of this run\n", deleted)
	if left != nil {
		left = fmt.Errorf("segments may be left in %s below %s/: %w", location, id, left)
	}
	if err != nil {
		return errors.Join(err, left)
	}
	if share := result.Share(); share < expected && result.Through > 0 {
		fmt.Fprintf(out, "only %.0f %% came through the store, the rest from the leaders: it, or the way to it, is too slow for this -rate\n", 100*share)
	}
	fmt.Fprintln(out, result)
	return errors.Join(judge(result, requests.refused()), left)
}

// expected is how much comes through a store that keeps up.
const expected = 0.95

// judge says what is wrong with the result: see the documentation of the command.
func judge(result threebrokers.Result, refused error) error {
	switch {
	case result.Err(0) != nil:
		return errors.Join(result.Err(0), refused)
	case refused != nil:
		return refused
	case result.Batches > 0 && result.Through == 0:
		return errors.New("nothing came through the store: it did not answer in time (see the requests above)")
	}
	return nil
}
