package gcs_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"

	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// handed starts a fake, and makes a configuration with a ready client for it.
func handed(t *testing.T, cfg fake.Config, options ...option.ClientOption) (*fake.Server, gcs.Config) {
	server, url := serve(t, cfg)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := storage.NewClient(t.Context(), append(options,
		option.WithEndpoint(url+"/storage/v1/"), option.WithHTTPClient(&http.Client{Transport: transport}), option.WithoutAuthentication())...)
	require.NoError(t, err)
	return server, gcs.Config{Bucket: bucket, Client: client, Store: objectstore.Config{Cluster: "c"}}
}

// modes are the two ways in which a client reads.
var modes = map[string][]option.ClientOption{"XML": nil, "JSON": {storage.WithJSONReads()}}

// A client that is handed in keeps the contract too, whichever way it reads: what an operator checks with finds nothing.
func TestClientKeepsTheContract(t *testing.T) {
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			server, c := handed(t, fake.Config{PageSize: 3}, options...)
			require.NoError(t, check.Check(t.Context(), manage(t, c), check.Options{Other: manage(t, c)}))

			reads := 0
			for _, r := range server.Requests() {
				if r.Op == fake.Read {
					reads++
					assert.Equal(t, name == "XML", r.XML)
				}
			}
			assert.NotZero(t, reads)

			none := c
			none.Bucket = "none"
			err := manage(t, none).FetchSegment(t.Context(), drivertest.Segment(t), 0, make([]byte, 1))
			assert.Equal(t, walstorage.ErrBucketNotFound, walstorage.KindOf(err))
			err = manage(t, c).FetchSegment(t.Context(), drivertest.Segment(t), 0, make([]byte, 1))
			assert.Equal(t, walstorage.ErrSegmentNotFound, walstorage.KindOf(err))
		})
	}
}

// J20: the retries that a client has are not used.
func TestClientDoesNotRetry(t *testing.T) {
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			server, c := handed(t, fake.Config{}, options...)
			c.Client.SetRetry(storage.WithPolicy(storage.RetryAlways))
			server.Store(bucket, "there", []byte("data"))
			driver := open(t, c)
			for op, call := range operations {
				server.Always(op, fake.Fault{Status: 503})
				before := server.Count(op)
				err := call(t.Context(), driver)
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%s: %v", op, err)
				assert.Equal(t, before+1, server.Count(op), op)
			}
		})
	}
}

// J20: a body that breaks off, and a page that is empty, lead to one request more at most, whose answer nobody waits for.
func TestClientThatAsksAgain(t *testing.T) {
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			server, c := handed(t, fake.Config{}, options...)
			server.Store(bucket, "there", make([]byte, 2000))
			driver := open(t, c)
			server.Always(fake.Read, fake.Fault{Truncate: 600})
			err := driver.Get(t.Context(), "there", 100, make([]byte, 1000))
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
			assert.LessOrEqual(t, server.Count(fake.Read), 2)

			server.Always(fake.List, fake.Fault{Empty: true})
			page, next, err := driver.List(t.Context(), "", "")
			require.NoError(t, err)
			assert.Empty(t, page)
			assert.NotEmpty(t, next)
			assert.LessOrEqual(t, server.Count(fake.List), 2)
		})
	}
}

// What a client shows of an answer is looked at: another range, a whole object, a short body.
func TestClientWithWrongAnswers(t *testing.T) {
	for name, options := range modes {
		for fault, what := range map[string]fake.Fault{
			"another range":      {ContentRange: "bytes 0-999/2000"},
			"a range of no form": {ContentRange: "bytes"},
			"the whole object":   {IgnoreRange: true},
			"short":              {Truncate: 600, Cut: true},
		} {
			t.Run(name+" "+fault, func(t *testing.T) {
				server, c := handed(t, fake.Config{}, options...)
				server.Store(bucket, "there", make([]byte, 2000))
				server.Always(fake.Read, what)
				err := open(t, c).Get(t.Context(), "there", 100, make([]byte, 1000))
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
			})
		}
	}
}

// W8: where a success is answered before the body was sent, the SDK by itself waits for ever for somebody to read it. An
// upload is one request all the same.
func TestClientWithAnEarlyAnswer(t *testing.T) {
	server, c := handed(t, fake.Config{})
	driver := open(t, c)
	data := make([]byte, 4<<20)
	require.NoError(t, driver.Put(t.Context(), "whole", objectstore.NewBody(data), drivertest.Checksum(data)))
	require.Equal(t, 1, server.Count(fake.Insert))
	early := fake.Fault{Early: true, Document: fmt.Sprintf(`{"name":"k","size":"%d"}`, len(data))}
	for i := range 10 {
		early.ReadOn = i%2 == 0
		server.Always(fake.Insert, early)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		body := objectstore.NewBody(data)
		returned := make(chan error, 1)
		go func() { returned <- driver.Put(ctx, "k", body, drivertest.Checksum(data)^1) }()
		select {
		case err := <-returned:
			assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
			assert.NoError(t, ctx.Err())
		case <-time.After(10 * time.Second):
			t.Fatal("the upload goes on although its context has ended")
		}
		body.Revoke()
		data[0]++ // ours again; the race detector watches
		cancel()
	}
}
