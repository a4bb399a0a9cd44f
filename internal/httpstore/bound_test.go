package httpstore_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
)

// A body of as many bytes as it may have is read whole, however it comes; one of a byte more is an error, which stays one.
func TestBound(t *testing.T) {
	for name, as := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "with the end": iotest.DataErrReader,
	} {
		for text, good := range map[string]bool{"": true, "0123": true, "01234567": true, "012345678": false, strings.Repeat("0", 1000): false} {
			answer := &http.Response{Body: io.NopCloser(as(strings.NewReader(text)))}
			httpstore.Bound(answer, 8, nil)
			got, err := io.ReadAll(answer.Body)
			if good {
				require.NoError(t, err, name)
				assert.Equal(t, text, string(got))
				continue
			}
			require.ErrorIs(t, err, httpstore.ErrEndless, name)
			assert.LessOrEqual(t, len(got), 9)
			_, err = answer.Body.Read(make([]byte, 100))
			assert.Error(t, err)
		}
	}
	cut := errors.New("cut")
	answer := &http.Response{Body: io.NopCloser(iotest.ErrReader(cut))}
	httpstore.Bound(answer, 8, nil)
	_, err := io.ReadAll(answer.Body)
	assert.Equal(t, cut, err)
}

// J15 (W8): bytes that come are movements, and a body that stops is a stall.
func TestBoundBodyIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, watch := stall.Start(t.Context(), 5*time.Second)
		defer watch.End()
		reader, writer := io.Pipe()
		answer := &http.Response{Body: reader}
		httpstore.Bound(answer, 100, watch)
		go func() {
			for range 3 {
				_, _ = writer.Write([]byte("x"))
				time.Sleep(4 * time.Second)
			}
		}()
		go func() {
			<-ctx.Done()
			_ = writer.CloseWithError(context.Cause(ctx))
		}()
		began := time.Now()
		got, err := io.ReadAll(answer.Body)
		require.Error(t, err)
		assert.Equal(t, "xxx", string(got))
		assert.Equal(t, 13*time.Second, time.Since(began))
	})
}
