package drivertest

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// HandlerFunc is a server that is one function, for [Driver.InPipes].
type HandlerFunc func(w http.ResponseWriter, r *http.Request)

// ServeHTTP implements http.Handler.
func (f HandlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) { f(w, r) }

// Close does nothing: such a server waits for nobody but the client.
func (HandlerFunc) Close() {}

// Endless is a body that begins so, goes on so and never ends. sent counts its bytes.
func Endless(begin, next string, sent *int64) io.ReadCloser { return &endless{begin, next, sent} }

type endless struct {
	now, next string
	sent      *int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.now == "" {
		e.now = e.next
	}
	n := copy(p, e.now)
	e.now = e.now[n:]
	*e.sent += int64(n)
	return n, nil
}

func (*endless) Close() error { return nil }

// SlowList proves J15 (W8): StallTimeout is for an answer in which nothing moves. A list of nothing whose five parts come
// slowly is waited for, one that stops is not.
func SlowList[C any, D objectstore.Driver](t *testing.T, d Driver[C, D], config C, parts [5]string) {
	for name, stops := range map[string]bool{"slow": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := d.InPipes(t, HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for i, part := range parts {
						_, _ = io.WriteString(w, part)
						_ = http.NewResponseController(w).Flush()
						if stops && i == 2 {
							<-r.Context().Done()
							return
						}
						time.Sleep(4 * time.Second)
					}
				}), config)
				*fieldsOf(&c).StallTimeout = 5 * time.Second
				began := time.Now()

				page, _, err := d.Open(t, c).List(t.Context(), "", "")

				if stops {
					assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
					assert.Equal(t, 13*time.Second, time.Since(began))
					return
				}
				require.NoError(t, err)
				assert.Empty(t, page)
				assert.Equal(t, 20*time.Second, time.Since(began))
			})
		})
	}
}

// CreatedEarly proves W1: an answer that says "created", with all that the store says of an object, before the body was
// sent is no success: what was to be stored is not known to who gave it. created gives the answer.
func CreatedEarly[C any, D objectstore.Driver](t *testing.T, d Driver[C, D], config C, created http.HandlerFunc) {
	synctest.Test(t, func(t *testing.T) {
		_, c := d.InPipes(t, HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1 {
				_, _ = io.CopyN(io.Discard, r.Body, 1)
			}
			created(w, r)
		}), config)
		driver := d.Open(t, c)
		put := func(data []byte) error {
			body := objectstore.NewBody(data)
			defer body.Revoke()
			return driver.Put(t.Context(), "k", body, Checksum(data))
		}
		err := put(make([]byte, 1<<20))
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "before the body was sent")
		assert.NoError(t, put(nil), "there is nothing to send")
		time.Sleep(time.Second) // net/http keeps what it closes for half a second, and the bubble waits for no clock
	})
}

// RetryAfterOfAnotherClock proves J3, J22: a date to wait for is by the clock of whoever has answered, which may be a quarter
// of an hour away from ours.
func RetryAfterOfAnotherClock[C any, D objectstore.Driver](t *testing.T, d Driver[C, D], config C) {
	for _, skew := range []time.Duration{-15 * time.Minute, 0, 15 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			_, c := d.InPipes(t, HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				there := time.Now().Add(skew).UTC()
				w.Header().Set("Date", there.Format(http.TimeFormat))
				w.Header().Set("Retry-After", there.Add(5*time.Second).Format(http.TimeFormat))
				w.WriteHeader(http.StatusServiceUnavailable)
			}), config)
			driver := d.Open(t, c)
			body := objectstore.NewBody([]byte("data"))
			defer body.Revoke()
			_, _, listed := driver.List(t.Context(), "", "")
			for op, err := range map[string]error{
				"Put": driver.Put(t.Context(), "k", body, Checksum([]byte("data"))),
				"Get": driver.Get(t.Context(), "k", 0, make([]byte, 1)), "List": listed,
			} {
				var told *walstorage.Error
				require.ErrorAs(t, err, &told, op)
				assert.Equal(t, 5*time.Second, told.RetryAfter, "%s, %v", op, skew)
			}
		})
	}
}
