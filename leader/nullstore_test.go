package leader_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// nullStore and nullLog do nothing, for benchmarks.
type (
	nullStore struct{}
	nullLog   struct{}
	// stillLog never has anything to read.
	stillLog struct{}
)

func (nullStore) UploadSegment(context.Context, walstorage.SegmentID, []byte) error { return nil }
func (nullStore) FetchSegment(context.Context, walstorage.SegmentID, int64, []byte) error {
	return walstorage.ErrSegmentNotFound
}

func (nullStore) StatSegment(context.Context, walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	return walstorage.SegmentInfo{}, walstorage.ErrSegmentNotFound
}
func (nullStore) DeleteSegments(context.Context, ...walstorage.SegmentID) error { return nil }
func (nullStore) ListSegments(context.Context, walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	return func(func(walstorage.SegmentInfo, error) bool) {}
}
func (nullStore) Close() error { return nil }

func (nullLog) Publish(_ context.Context, events ...*metadata.Event) (int, error) {
	return len(events), nil
}

func (nullLog) Subscribe(context.Context, metadata.Position) (metadata.Subscription, error) {
	return nil, metadata.ErrClosed
}
func (nullLog) Close() error { return nil }

func (stillLog) Start() int64                                     { return 0 }
func (stillLog) End() (int64, int32)                              { return 0, -1 }
func (stillLog) Read(context.Context, int64, []byte) (int, error) { return 0, nil }

func benchUploader(b *testing.B, linger time.Duration) *leader.Uploader {
	b.Helper()
	up, err := leader.New(leader.Config{
		Storage: nullStore{}, Metadata: nullLog{}, Cluster: cluster, Linger: min(linger, 10*time.Second),
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, up.Close(context.Background())) })
	return up
}
