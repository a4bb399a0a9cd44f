package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
)

// Log is one broker's handle on the shared directory. It implements [metadata.Log] and is safe for concurrent use.
type Log struct {
	cfg  Config
	root *os.Root

	turn   chan struct{} // holds one token: who has it uses writer
	writer *writer

	mu            sync.Mutex
	isClosed      bool
	subscriptions map[*subscription]struct{}
	watcher       *watcher // runs while there are subscriptions
	closed        chan struct{}
	goroutines    sync.WaitGroup // watchers, and writes whose caller may have given up
	closeOnce     sync.Once
	closeErr      error
}

var _ metadata.Log = (*Log)(nil)

// New opens the log in cfg.Dir. It creates the broker's directory there and makes sure that the broker can write to
// it; no file is begun before the first Publish. The error names the field of the configuration that is wrong, or says
// what is the matter with the directory. ctx limits the call alone.
func New(ctx context.Context, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("filelog: Config.Dir: %w", err)
	}
	if err := checkDir(root, cfg.Broker); err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("filelog: Config.Dir %s cannot be used by broker %d: %w", cfg.Dir, cfg.Broker, err)
	}
	l := &Log{
		cfg:           cfg,
		root:          root,
		turn:          make(chan struct{}, 1),
		writer:        newWriter(cfg, root),
		subscriptions: make(map[*subscription]struct{}),
		closed:        make(chan struct{}),
	}
	l.turn <- struct{}{}
	return l, nil
}

// ended tells in a fixed order why a call must not begin (D2).
func (l *Log) ended(ctx context.Context) error {
	select {
	case <-l.closed:
		return metadata.ErrClosed
	default:
		return ctx.Err()
	}
}

// Publish appends the events and returns when they are on disk, see [metadata.Log]. When ctx ends, a write or fsync
// under way goes on by itself: the outcome is then unknown, and the next Publish and Close wait for it.
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
	case <-l.closed:
		return 0, 0, metadata.ErrClosed
	case <-ctx.Done():
		return 0, 0, l.ended(ctx)
	}
	if err := l.ended(ctx); err != nil {
		l.turn <- struct{}{}
		return 0, 0, err
	}
	w := l.writer
	valid, wrong := w.encode(events)
	if valid == 0 {
		l.turn <- struct{}{}
		return 0, 0, wrong
	}
	size = int64(len(w.buffer) - headerLength)
	outcome := make(chan error, 1)
	if !l.begin() {
		l.turn <- struct{}{}
		return 0, 0, metadata.ErrClosed
	}
	go func() {
		defer l.goroutines.Done()
		defer func() { l.turn <- struct{}{} }()
		number := w.next
		err := w.write()
		outcome <- err
		if err == nil && w.next != number {
			w.dropAged() // off the caller's path
		}
	}()
	select {
	case err = <-outcome:
	case <-ctx.Done():
		select { // it may have ended as well
		case err = <-outcome:
		default:
			return 0, 0, ctx.Err()
		}
	}
	if err != nil {
		return 0, 0, err
	}
	return valid, size, wrong
}

// begin counts a goroutine, unless the log is closed.
func (l *Log) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isClosed {
		l.goroutines.Add(1)
	}
	return !l.isClosed
}

// Subscribe begins to read, see [metadata.Log].
func (l *Log) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	if err := l.ended(ctx); err != nil {
		return nil, err
	}
	s := newSubscription(l)
	l.mu.Lock()
	if l.isClosed {
		l.mu.Unlock()
		return nil, metadata.ErrClosed
	}
	if l.watcher == nil {
		l.watcher = newWatcher(l.cfg, l.root)
		l.goroutines.Go(l.watcher.run)
	}
	l.subscriptions[s] = struct{}{}
	s.watcher = l.watcher
	l.mu.Unlock()
	if err := s.begin(ctx, from); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// unsubscribe forgets a subscription. The last one stops the watcher.
func (l *Log) unsubscribe(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.subscriptions, s)
	if len(l.subscriptions) == 0 && l.watcher != nil {
		close(l.watcher.stop)
		l.watcher = nil
	}
}

// Close ends the subscriptions, waits for a write under way, and releases the files. The events stay.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.isClosed = true
		close(l.closed)
		if l.watcher != nil {
			close(l.watcher.stop)
			l.watcher = nil
		}
		var open []*subscription
		for s := range l.subscriptions {
			open = append(open, s)
		}
		clear(l.subscriptions)
		l.mu.Unlock()
		for _, s := range open { // in any order: closing shows to no one
			_ = s.Close()
		}
		l.goroutines.Wait()
		<-l.turn // no one will use the writer again
		l.writer.leave()
		l.closeErr = l.root.Close()
	})
	if errors.Is(l.closeErr, os.ErrClosed) {
		return nil
	}
	return l.closeErr
}
