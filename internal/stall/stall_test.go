package stall_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// J14, J15 (W8): an attempt ends when nothing has moved for the time given, and not before.
func TestNothingMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, watch := stall.Start(t.Context(), 2*time.Second)
		defer watch.End()
		for range 5 {
			time.Sleep(1900 * time.Millisecond)
			watch.Moved()
			assert.NoError(t, ctx.Err())
		}

		<-ctx.Done()

		assert.Equal(t, 5*1900*time.Millisecond+2*time.Second, time.Since(begun))
		failure := &net{}
		err := watch.Cause(failure)
		assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err))
		assert.ErrorContains(t, err, "no byte moved for 2s: connection gone")
		var reached *net
		assert.ErrorAs(t, err, &reached)
		assert.NotErrorIs(t, err, context.Canceled, "the end of the watch is not the caller's (W7)")
	})
}

// net is the failure of a transport whose request was cancelled.
type net struct{}

func (*net) Error() string { return "connection gone" }
func (*net) Unwrap() error { return context.Canceled }

// What ended for another reason was ended by no stall, and a late read winds nothing up again.
func TestEndedOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, cancel := context.WithCancel(t.Context())
		ctx, watch := stall.Start(caller, time.Second)
		cancel()
		<-ctx.Done()
		watch.Moved()
		time.Sleep(time.Minute)
		assert.NoError(t, watch.Cause(errors.New("any")))
		watch.End()

		ctx, watch = stall.Start(t.Context(), time.Second)
		watch.End()
		<-ctx.Done()
		watch.Moved()
		time.Sleep(time.Minute)
		assert.NoError(t, watch.Cause(errors.New("any")))
	})
}

// W5: reads of an upload count, pass nothing by and end with the body.
func TestUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, watch := stall.Start(t.Context(), time.Second)
		defer watch.End()
		body := objectstore.NewBody([]byte("0123456789"))
		upload := watch.Upload(body)
		require.NoError(t, iotest.TestReader(upload, []byte("0123456789")))
		_, err := upload.Seek(0, io.SeekStart)
		require.NoError(t, err)
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			_, err := upload.Read(make([]byte, 1))
			require.NoError(t, err)
		}
		require.NoError(t, ctx.Err())
		require.NoError(t, upload.Close())
		body.Revoke()
		_, err = upload.Seek(0, io.SeekStart)
		require.NoError(t, err)
		_, err = upload.Read(make([]byte, 1))
		assert.Error(t, err)
	})
}

// W1: a body is whole once it was read to its end, and not when it has only been wound back, as for a second pass. An empty
// one always is.
func TestUploadIsWhole(t *testing.T) {
	_, watch := stall.Start(t.Context(), time.Minute)
	defer watch.End()
	upload := watch.Upload(objectstore.NewBody([]byte("0123456789")))
	for range 2 {
		assert.False(t, upload.Whole())
		_, err := io.CopyN(io.Discard, upload, 9)
		require.NoError(t, err)
		assert.False(t, upload.Whole())
		_, err = upload.Read(make([]byte, 1))
		require.NoError(t, err)
		assert.True(t, upload.Whole())
		_, err = upload.Seek(-1, io.SeekStart)
		require.Error(t, err)
		assert.True(t, upload.Whole())
		_, err = upload.Seek(0, io.SeekStart)
		require.NoError(t, err)
	}
	assert.True(t, watch.Upload(objectstore.NewBody(nil)).Whole())
}

// aws/aws-sdk-go#4510, J11 (W6): a body is read whole, or it is an error.
func TestReadFull(t *testing.T) {
	tests := map[string]struct {
		body io.Reader
		kind error // ErrClosed for success
	}{
		"whole":                       {strings.NewReader("0123456789"), walstorage.ErrClosed},
		"byte by byte":                {iotest.OneByteReader(strings.NewReader("0123456789")), walstorage.ErrClosed},
		"bytes together with the end": {iotest.DataErrReader(strings.NewReader("0123456789")), walstorage.ErrClosed},
		"shorter":                     {strings.NewReader("012345678"), walstorage.ErrUnavailable},
		"empty":                       {strings.NewReader(""), walstorage.ErrUnavailable},
		"longer":                      {strings.NewReader("0123456789a"), walstorage.ErrUnavailable},
		"broken":                      {iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("0123456789"))), walstorage.ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, watch := stall.Start(t.Context(), time.Minute)
			defer watch.End()
			dst := make([]byte, 10)
			err := watch.ReadFull(test.body, dst)
			if errors.Is(test.kind, walstorage.ErrClosed) {
				require.NoError(t, err)
				assert.Equal(t, "0123456789", string(dst))
				return
			}
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
		})
	}
}
