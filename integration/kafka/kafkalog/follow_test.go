package kafkalog

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
)

// live is a reader that takes all that comes at once, as a follower does, and keeps it for the test.
type live struct {
	metadata.Subscription
	items chan metadata.Item
	// ended is closed when nothing more can come.
	ended chan struct{}
}

// follow begins to read at the end, until the test ends.
func follow(tb testing.TB, log metadata.Log) *live {
	tb.Helper()
	sub, err := log.Subscribe(tb.Context(), theEnd)
	require.NoError(tb, err)
	l := &live{Subscription: sub, items: make(chan metadata.Item, 1<<16), ended: make(chan struct{})}
	go l.run()
	tb.Cleanup(func() {
		require.NoError(tb, sub.Close())
		<-l.ended
	})
	return l
}

func (l *live) run() {
	defer close(l.ended)
	for {
		item, err := l.Subscription.Next(context.Background())
		switch {
		case errors.Is(err, metadata.ErrClosed):
			return
		case err != nil:
			_ = sleep(context.Background(), pauseAfterError)
			continue
		case item.Event != nil:
			item.Event = item.Event.Clone()
		}
		l.items <- item
	}
}

func (l *live) Next(ctx context.Context) (metadata.Item, error) {
	select {
	case item := <-l.items:
		return item, nil
	case <-ctx.Done():
		return metadata.Item{}, ctx.Err()
	}
}
