package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage/objectstore"
)

func TestBodyReadsLikeAReader(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 100_000} {
		data := pattern(size)
		require.NoError(t, iotest.TestReader(objectstore.NewBody(data), data), "%d bytes", size)
		require.Equal(t, int64(size), objectstore.NewBody(data).Len())

		var written bytes.Buffer
		n, err := objectstore.NewBody(data).WriteTo(&written)
		require.NoError(t, err)
		require.Equal(t, int64(size), n)
		require.True(t, bytes.Equal(data, written.Bytes()))
	}
}

// report 37: a body can be read again from the start, as often as a transport or a signer likes.
func TestBodyCanBeReadAgain(t *testing.T) {
	body := objectstore.NewBody([]byte("0123456789"))
	for range 3 {
		_, err := body.Seek(0, io.SeekStart)
		require.NoError(t, err)
		all, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(all))
		require.NoError(t, body.Close(), "close ends nothing")
	}
	offset, err := body.Seek(-3, io.SeekEnd)
	require.NoError(t, err)
	require.Equal(t, int64(7), offset)
	offset, err = body.Seek(-1, io.SeekCurrent)
	require.NoError(t, err)
	require.Equal(t, int64(6), offset)
	_, err = body.Seek(-7, io.SeekCurrent)
	require.Error(t, err)
	_, err = body.Seek(0, 77)
	require.Error(t, err)
	_, err = body.ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
}

// W5: once Revoke has returned every way to the bytes ends in an error.
func TestRevokedBody(t *testing.T) {
	body := objectstore.NewBody(pattern(100))
	body.Revoke()
	body.Revoke()

	buf := make([]byte, 10)
	n, err := body.Read(buf)
	assert.Zero(t, n)
	assert.Error(t, err)
	assert.NotErrorIs(t, err, io.EOF)
	n, err = body.ReadAt(buf, 0)
	assert.Zero(t, n)
	assert.Error(t, err)
	written, err := body.WriteTo(io.Discard)
	assert.Zero(t, written)
	assert.Error(t, err)
	assert.Equal(t, int64(100), body.Len(), "a transport may still ask")
}

// W5: Revoke waits for no writer, however slow, and a write that is under way holds a copy.
func TestRevokeWhileAWriterBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := pattern(100_000)
		body := objectstore.NewBody(data)
		gate := make(chan struct{})
		writer := &blockingWriter{gate: gate}
		done := make(chan error, 1)
		go func() {
			_, err := body.WriteTo(writer)
			done <- err
		}()
		synctest.Wait() // the writer holds the first piece

		body.Revoke()
		clear(data)
		close(gate)

		require.Error(t, <-done)
		require.True(t, bytes.HasPrefix(pattern(100_000), writer.got.Bytes()), "not a byte of what the buffer holds now")
		require.Less(t, writer.got.Len(), 100_000)
	})
}

type blockingWriter struct {
	gate <-chan struct{}
	got  bytes.Buffer
}

func (w *blockingWriter) Write(p []byte) (int, error) {
	<-w.gate
	return w.got.Write(p)
}

// W5 under -race: readers of all kinds run while the bytes are taken back and overwritten.
func TestRevokeRacesWithReaders(t *testing.T) {
	for range 50 {
		data := bytes.Repeat([]byte{1}, 32<<10)
		body := objectstore.NewBody(data)
		var started, all sync.WaitGroup
		started.Add(3)
		var wrong atomic.Int64
		check := func(p []byte) {
			for _, b := range p {
				if b != 1 {
					wrong.Add(1)
				}
			}
		}
		all.Go(func() {
			started.Done()
			buf := make([]byte, 999)
			for {
				n, err := body.Read(buf)
				check(buf[:n])
				if err != nil {
					return
				}
			}
		})
		all.Go(func() {
			started.Done()
			buf := make([]byte, 999)
			for offset := int64(0); ; offset += 999 {
				n, err := body.ReadAt(buf, offset)
				check(buf[:n])
				if err != nil {
					return
				}
			}
		})
		all.Go(func() {
			started.Done()
			var out bytes.Buffer
			_, _ = body.WriteTo(&out)
			check(out.Bytes())
		})
		started.Wait()
		runtime.Gosched()

		body.Revoke()
		clear(data) // a reader that still has the bytes is a race, and sees zeros

		all.Wait()
		require.Zero(t, wrong.Load())
	}
}

// W5, L7: net/http alone reads a request body after Do has returned, where the server answers before it has read it.
// Such a read gets an error.
func TestHTTPTransportThatReadsAfterTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		answered := make(chan struct{})
		var rest []byte
		serverDone := make(chan struct{})
		go func() { // reads the head, answers 503, and only later reads what is left
			defer close(serverDone)
			head := make([]byte, 0, 4096)
			for !bytes.Contains(head, []byte("\r\n\r\n")) {
				one := make([]byte, 1)
				if _, err := server.Read(one); err != nil {
					return
				}
				head = append(head, one...)
			}
			_, _ = io.WriteString(server, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
			<-answered
			rest, _ = io.ReadAll(server)
			_ = server.Close()
		}()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}
		defer transport.CloseIdleConnections()
		data := bytes.Repeat([]byte{1}, 4<<20)
		watched := &watchedBody{Body: objectstore.NewBody(data), failed: make(chan error, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://store.invalid/key", watched)
		require.NoError(t, err)
		request.ContentLength = watched.Len()

		response, err := transport.RoundTrip(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		watched.Revoke() // the attempt is over; the answer's body is still unread, so the transport goes on sending
		clear(data)      // and the buffer has other use
		close(answered)

		<-serverDone
		require.NoError(t, response.Body.Close())
		require.NotContains(t, string(rest), "\x00", "the new content never leaves")
		require.Less(t, len(rest), len(data))
		synctest.Wait()
		select {
		case err := <-watched.failed:
			require.NotErrorIs(t, err, io.EOF)
		default:
			t.Fatal("the transport did not read after the answer: this test shows nothing any more")
		}
	})
}

// watchedBody tells the first error that a reader of the body got.
type watchedBody struct {
	*objectstore.Body
	failed chan error
	once   sync.Once
}

// WriteTo hides that of the body, so that every read is seen.
func (w *watchedBody) WriteTo(out io.Writer) (int64, error) {
	return io.Copy(out, struct{ io.Reader }{w})
}

func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.Body.Read(p)
	if err != nil {
		w.once.Do(func() { w.failed <- err })
	}
	return n, err
}

// A writer's own error comes through.
func TestBodyWriteToFails(t *testing.T) {
	broken := errors.New("broken pipe")
	n, err := objectstore.NewBody(pattern(10)).WriteTo(writerFunc(func([]byte) (int, error) { return 3, broken }))
	require.ErrorIs(t, err, broken)
	require.Equal(t, int64(3), n)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// BenchmarkBody shows that the mutex costs nothing beside the copy: bytes.Reader is the limit.
func BenchmarkBody(b *testing.B) {
	data := pattern(256 << 10)
	buf := make([]byte, 32<<10)
	drain := func(b *testing.B, open func() io.Reader) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			r := open()
			for {
				if _, err := r.Read(buf); err != nil {
					break
				}
			}
		}
	}
	b.Run("bytes.Reader", func(b *testing.B) { drain(b, func() io.Reader { return bytes.NewReader(data) }) })
	b.Run("Body", func(b *testing.B) { drain(b, func() io.Reader { return objectstore.NewBody(data) }) })
}
