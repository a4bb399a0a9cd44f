package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/metadata"
)

// Log is one broker's handle on the topic. It implements [metadata.Log] and is safe for concurrent use.
type Log struct {
	cfg    Config
	limit  int // of a record batch
	client *kgo.Client

	turn   chan struct{} // holds one token: who has it uses writer
	writer *writer

	mu            sync.Mutex
	isClosed      bool
	subscriptions map[*subscription]struct{}
	ctx           context.Context // ends with Close
	cancel        context.CancelFunc
	closeOnce     sync.Once
}

var _ metadata.Log = (*Log)(nil)

// Open connects to the cluster, creates the topic if it is missing, verifies it, and looks whether a newer epoch of the
// broker has published (L6): if so, Open succeeds and every Publish gives [metadata.ErrFenced]. It ends with ctx or after
// Config.OpenTimeout. The error is of kind walstorage.ErrInvalidArgument where it names a field of the configuration, or
// one of [ErrUnreachable], [ErrAuthentication], [ErrAuthorization] and [ErrTopic], or the context's own; whatever it is,
// nothing stays behind.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, cfg.OpenTimeout)
	defer cancel()
	l := &Log{cfg: cfg, client: client, turn: make(chan struct{}, 1), subscriptions: make(map[*subscription]struct{})}
	if err := l.open(limited); err != nil {
		client.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("kafkalog: opening topic %s: %w", cfg.Topic, ctx.Err())
		}
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.turn <- struct{}{}
	return l, nil
}

func (l *Log) open(ctx context.Context) (err error) {
	if err := reach(ctx, l.client); err != nil {
		return err
	}
	if l.limit, err = (topicAdmin{l.cfg, kadm.NewClient(l.client)}).open(ctx); err != nil {
		return err
	}
	l.writer = newWriter(l.cfg, l.client, l.limit)
	if err := l.writer.look(ctx); err != nil && !errors.Is(err, metadata.ErrFenced) {
		return err
	}
	return nil
}

// mostDecompressed is how large a batch may become that the cluster, or somebody else, has compressed. One of this package is
// no larger than the topic's limit, and never compressed by it. A foreign one of a megabyte could fill the memory.
const mostDecompressed = 64 << 20

// newClient makes a client that has not connected yet. What the caller gives may change the defaults, and nothing that the
// guarantees rest on.
func newClient(cfg Config, more ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.ClientID("walhop"),
		kgo.DialTimeout(min(5*time.Second, cfg.OpenTimeout)),
		kgo.RetryTimeout(cfg.OpenTimeout),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.DisableClientMetrics(), // KIP-714: every subscription would be a client of its own there
		kgo.MaxDecompressBatchBytes(mostDecompressed),
		kgo.MetadataMinAge(50 * time.Millisecond), // how soon a new leader, or a topic just created, can be asked for again
	}
	opts = append(opts, cfg.Opts...)
	if len(cfg.Seeds) > 0 {
		opts = append(opts, kgo.SeedBrokers(cfg.Seeds...))
	}
	if cfg.Rack != "" {
		opts = append(opts, kgo.Rack(cfg.Rack))
	}
	opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks())) // a raw produce request takes it from here
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		if strings.Contains(err.Error(), "addr") { // it repeats the seed, which may be a URL (W11)
			return nil, invalid("Opts: a seed broker is no address, want host:port")
		}
		return nil, invalid("Opts: %w", err)
	}
	if problem := optsProblem(cfg, client); problem != "" {
		client.Close()
		return nil, invalid("%s", problem)
	}
	return client, nil
}

// optsProblem says what a client must not have got from Config.Opts, "" if there is nothing.
func optsProblem(cfg Config, client *kgo.Client) string {
	if group, _ := client.OptValue(kgo.ConsumerGroup).(string); group != "" {
		return "Opts has a consumer group, and subscriptions have none"
	}
	seeds, _ := client.OptValue(kgo.SeedBrokers).([]string)
	if len(cfg.Seeds) == 0 && len(seeds) == 1 && seeds[0] == "127.0.0.1" { // the client's default, which nobody has asked for
		return "Seeds is empty"
	}
	for _, seed := range seeds {
		if strings.ContainsAny(seed, "/@?#") { // the errors of a connection would repeat it (W11)
			return "Opts: a seed broker is a URL, want host:port"
		}
	}
	return ""
}

// MaxEventBytes is the largest event that the topic takes, in bytes, as its settings were when the log was opened:
// leader.Config.MaxEventBytes must not be greater (L8), which leader.New checks, and adopts where its own is not set.
func (l *Log) MaxEventBytes() int { return min(metadata.MaxEventBytes, l.limit-maxRecordOverhead) }

// ended tells in a fixed order why a call must not begin or go on (D2).
func (l *Log) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return metadata.ErrClosed
	}
	return ctx.Err()
}

// while returns a context that ends with ctx, with the log, or after the time given.
func (l *Log) while(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(l.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Publish appends the events and returns on the cluster's answer, see [metadata.Log] and the package documentation. It
// ends with ctx or after Config.PublishTimeout.
func (l *Log) Publish(ctx context.Context, events ...*metadata.Event) (stored int, err error) {
	begun := time.Now()
	var size int64
	stored, size, err = l.publish(ctx, events)
	if hook := l.cfg.Hooks.Published; hook != nil {
		hook(metadata.Publication{Events: len(events), Stored: stored, Bytes: size, Duration: time.Since(begun), Err: err})
	}
	return stored, err
}

func (l *Log) publish(ctx context.Context, events []*metadata.Event) (stored int, size int64, err error) {
	select {
	case <-l.turn:
	case <-l.ctx.Done():
		return 0, 0, metadata.ErrClosed
	case <-ctx.Done():
		return 0, 0, l.ended(ctx)
	}
	defer func() { l.turn <- struct{}{} }()
	if err := l.ended(ctx); err != nil {
		return 0, 0, err
	}
	limited, cancel := l.while(ctx, l.cfg.PublishTimeout)
	defer cancel()
	stored, size, err = l.writer.publish(limited, events)
	if err == nil || limited.Err() == nil {
		return stored, size, err
	}
	// Whose time was up is told: the caller's is an error of its context, the log's own limit is not.
	cause := l.ended(ctx)
	unknown := errors.Is(err, metadata.ErrUnknownOutcome)
	switch {
	case cause == nil, errors.Is(err, metadata.ErrInvalid), errors.Is(err, metadata.ErrFenced):
		return stored, size, err
	case unknown && errors.Is(cause, metadata.ErrClosed): // which would say that nothing is stored
		return stored, size, fmt.Errorf("%w, as the log was closed", err)
	case unknown:
		return stored, size, fmt.Errorf("%w: %w", err, cause)
	}
	return stored, size, fmt.Errorf("%w: %w", cause, err)
}

// Subscribe begins to read, see [metadata.Log]. It returns when the offset of every partition is known, and waits for no
// record. It ends with ctx or after Config.OpenTimeout.
func (l *Log) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	if err := l.ended(ctx); err != nil {
		return nil, err
	}
	limited, cancel := l.while(ctx, l.cfg.OpenTimeout)
	defer cancel()
	s, err := newSubscription(limited, l, from)
	if err != nil {
		if cause := l.ended(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	l.mu.Lock()
	closed := l.isClosed
	if !closed {
		l.subscriptions[s] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		_ = s.Close()
		return nil, metadata.ErrClosed
	}
	return s, nil
}

func (l *Log) unsubscribe(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.subscriptions, s)
}

// Close ends the calls under way and the subscriptions, and closes the connections. The topic and what is in it stay.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.isClosed = true
		var open []*subscription
		for s := range l.subscriptions {
			open = append(open, s)
		}
		l.mu.Unlock()
		l.cancel()
		for _, s := range open { // in any order: closing shows to no one
			_ = s.Close()
		}
		<-l.turn // no one will use the writer again
		l.client.Close()
	})
	return nil
}
