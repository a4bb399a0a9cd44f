package drivertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/faulty"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// ConnectionRefused proves J7: a server that is down is unavailable, and its coming back is noticed.
func ConnectionRefused[F any](t *testing.T, s Subject[F]) {
	synctest.Test(t, func(t *testing.T) {
		place := s.Pipes(t, 0)
		manager, id := place.Manager(t, Options{}), Segment(t)
		place.Network.Refuse(true)
		time.AfterFunc(3*time.Second, func() { place.Network.Refuse(false) })
		require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data")))
		assert.Equal(t, 1, place.Fake.Count(s.Put))
	})
}

// ClosedKeepAlive proves J25: a connection that the server has closed while it was idle is no trouble of the next request.
// open makes a manager of the server at that URL.
func ClosedKeepAlive(t *testing.T, fake http.Handler, open func(url string) *objectstore.Manager) {
	listening := httptest.NewServer(fake)
	t.Cleanup(listening.Close)
	manager := open(listening.URL)
	for i := range 20 {
		id, other := Segment(t), Segment(t)
		for _, id := range []walstorage.SegmentID{id, other} {
			require.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data")), "round %d", i)
			listening.CloseClientConnections()
		}
		require.NoError(t, manager.FetchSegment(t.Context(), id, 0, make([]byte, 4)), "round %d", i)
		listening.CloseClientConnections()
		_, err := manager.StatSegment(t.Context(), id)
		require.NoError(t, err, "round %d", i)
		listening.CloseClientConnections()
		require.NoError(t, manager.DeleteSegments(t.Context(), id, other), "round %d", i)
		listening.CloseClientConnections()
	}
}

// UntrustedCertificate proves that a certificate that nobody trusts is reported and not tried again: no time mends it.
func UntrustedCertificate[F any](t *testing.T, s Subject[F]) {
	place := s.TLS(t)
	err := place.Manager(t, Options{Own: true}).UploadSegment(t.Context(), Segment(t), []byte("data"))
	require.Error(t, err)
	assert.NoError(t, walstorage.KindOf(err))
	assert.ErrorContains(t, err, "certificate")
	assert.Empty(t, place.Fake.Came())
}

// ResponseHeaderTimeout proves J13: an answer that does not begin in time ends the attempt of the package's own client, and
// that is not the watch's doing.
func ResponseHeaderTimeout[F any](t *testing.T, s Subject[F]) {
	place := s.Sockets(t)
	driver := place.Driver(t, Options{ResponseHeaderTimeout: 20 * time.Millisecond, StallTimeout: time.Hour})
	place.Fake.Always(s.Get, s.Fault(Fault{Course: faulty.Course{Wait: make(chan struct{})}}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := s.Operations[s.Get](ctx, driver)
	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
	assert.NoError(t, ctx.Err())
}

// Warm proves that Warm opens connections that the first uploads then use, and says what the store says.
func Warm[F any](t *testing.T, s Subject[F]) {
	synctest.Test(t, func(t *testing.T) {
		place := s.Pipes(t, 0)
		driver := place.Driver(t, Options{})
		warm := driver.(objectstore.Warmer).Warm
		place.Fake.Always(s.Warm, s.Fault(Fault{Course: faulty.Course{Delay: time.Millisecond}})) // so that they are under way at once
		require.NoError(t, warm(t.Context()))
		opened := place.Network.Dialled()
		assert.Equal(t, 8, opened)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				data := []byte{byte(i)}
				assert.NoError(t, driver.Put(t.Context(), fmt.Sprint(i), objectstore.NewBody(data), Checksum(data)))
			})
		}
		all.Wait()
		assert.Equal(t, opened, place.Network.Dialled())

		for fault, kind := range map[*Fault]error{
			{Status: 403, Code: s.Refused}:  walstorage.ErrAccessDenied,
			{Status: 404, Code: s.NoBucket}: walstorage.ErrBucketNotFound,
			{Status: 503, Code: s.Busy}:     walstorage.ErrUnavailable,
		} {
			place.Fake.Always(s.Warm, s.Fault(*fault))
			assert.Equal(t, kind, walstorage.KindOf(warm(t.Context())))
		}
	})
}

// OwnTransport proves that the package's own client speaks HTTP/1.1 although the server offers more, and uses its
// connections again, as many as were open at once. start starts the server that it gets, whose fake is place's, and makes a
// driver for it.
func OwnTransport[F any](t *testing.T, s Subject[F], fake Fake[F], start func(*httptest.Server) objectstore.Driver) {
	var connections atomic.Int64
	listening := httptest.NewUnstartedServer(fake)
	listening.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	t.Cleanup(listening.Close)
	driver := start(listening)

	// Fifty requests at once, twice: the second time no connection is opened, where ten idle ones, as SDKs have, or two, as
	// net/http has, would not do.
	arrived, gate := make(chan struct{}, 50), make(chan struct{})
	for round := range 2 {
		fault := s.Fault(Fault{Course: faulty.Course{Wait: gate}})
		fake.Choose(func(faulty.Request) F {
			arrived <- struct{}{}
			return fault
		})
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				data := []byte{byte(i)}
				assert.NoError(t, driver.Put(t.Context(), fmt.Sprintf("%d/%d", round, i), objectstore.NewBody(data), Checksum(data)))
			})
		}
		for range 50 {
			<-arrived
		}
		close(gate)
		all.Wait()
		gate = make(chan struct{})
		assert.Equal(t, int64(50), connections.Load())
	}
	for _, r := range fake.Came() {
		assert.Equal(t, "HTTP/1.1", r.Proto)
	}
}

// PlainHTTP2 starts the server so that it offers HTTP/2 too, without TLS.
func PlainHTTP2(listening *httptest.Server) {
	listening.Config.Protocols = new(http.Protocols)
	listening.Config.Protocols.SetHTTP1(true)
	listening.Config.Protocols.SetUnencryptedHTTP2(true)
	listening.Start()
}
