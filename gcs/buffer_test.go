package gcs_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/gcs"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
)

// googleapis/google-cloud-go#6816, googleapis/google-cloud-go#1161, googleapis/google-cloud-go#4167, L7, W5: a buffer is
// its owner's again when the upload has returned. 1,500 uploads are cancelled at whatever moment, over pipes that hold
// nothing, so that it is often in the middle of the body, over sockets and over TLS; the server reads, or answers first
// and goes on reading. The race detector sees no touch, and neither an object nor what came over the wire holds a byte
// that was written afterwards. Nor is an object the half of an upload (W1).
func TestBufferAfterACancelledUpload(t *testing.T) {
	const cancels = 500 // over each of the three
	over := map[string]func(t *testing.T) (*fake.Server, gcs.Config){
		"pipes": func(t *testing.T) (*fake.Server, gcs.Config) {
			server, _, c := inMemory(t, fake.Config{})
			return server, c
		},
		"http": func(t *testing.T) (*fake.Server, gcs.Config) {
			server, url := serve(t, fake.Config{})
			return server, config(url)
		},
		"https": func(t *testing.T) (*fake.Server, gcs.Config) { return serveTLS(t, fake.Config{}) },
	}
	for name, start := range over {
		t.Run(name, func(t *testing.T) {
			server, c := start(t)
			c.Store.MaxAttempts = 1
			manager := manage(t, c)
			server.Fault(func(r fake.Request) fake.Fault {
				if r.Number%3 == 0 {
					return fake.Fault{Early: true, ReadOn: true, Status: 503, Reason: "backendError"}
				}
				return fake.Fault{}
			})
			ours, foreign := bytes.Repeat([]byte{1}, 96<<10), bytes.Repeat([]byte{2}, 96<<10)
			data := make([]byte, len(ours))
			var stored, cancelled, early int
			for i := 0; cancelled < cancels; i++ {
				copy(data, ours)
				ctx, cancel := context.WithCancel(t.Context())
				var timer *time.Timer
				if i%5 > 0 { // the fifth is let be
					timer = time.AfterFunc(time.Duration(i%300)*3*time.Microsecond, cancel)
				}
				err := manager.UploadSegment(ctx, segment(t), data)
				copy(data, foreign)
				switch walstorage.KindOf(err) {
				case nil:
					require.NoError(t, err)
					stored++
				case context.Canceled:
					cancelled++
				case walstorage.ErrUnavailable:
					early++
				default:
					t.Fatal(err)
				}
				if timer != nil {
					timer.Stop()
				}
				cancel()
			}
			t.Logf("%d stored, %d cancelled, %d answered early", stored, cancelled, early)
			assert.Greater(t, stored, 10, "hardly an upload was stored: the test proves nothing")
			assert.Greater(t, early, 10, "hardly an answer came early: the test proves nothing")
			for _, key := range server.Keys(bucket) {
				object, _ := server.Object(bucket, key)
				require.True(t, bytes.Equal(ours, object), "%s holds %d bytes that are not those of the upload", key, len(object))
			}
			for _, r := range server.Requests() {
				require.Negative(t, bytes.IndexByte(r.Body, 2), "%s was sent with bytes written after the upload had returned", r.Key)
			}
		})
	}
}
