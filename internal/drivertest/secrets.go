package drivertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/faulty"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// texts are the text of an error and of every error that it wraps.
func texts(err error) []string {
	if err == nil {
		return nil
	}
	found := []string{err.Error(), fmt.Sprintf("%+v", err)}
	switch wrapping := err.(type) {
	case interface{ Unwrap() error }:
		found = append(found, texts(wrapping.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, inner := range wrapping.Unwrap() {
			found = append(found, texts(inner)...)
		}
	}
	return found
}

// Quiet proves W11 of an error, and of those that it wraps: none holds a secret, nor does what else can be had of it.
func Quiet(tb testing.TB, what string, err error, secrets []string, more ...string) {
	tb.Helper()
	for _, text := range append(texts(err), more...) {
		for _, secret := range secrets {
			assert.NotContains(tb, text, secret, what)
		}
	}
}

// NoSecrets proves W11, I8 of the Manager on the driver: whatever goes wrong, no error and none that it wraps holds one of
// the secrets, though the server repeats the headers that it was sent in every answer, and the network the URL and headers
// in every error.
func NoSecrets[F any](t *testing.T, s Subject[F], secrets ...string) {
	place := s.Sockets(t)
	place.Fake.Store(Bucket, "there", []byte("data"))
	echo := func(header http.Header) string {
		var lines strings.Builder // an error may lose what follows a header in its line
		_ = header.Write(&lines)
		return "You have sent:\n" + lines.String()
	}
	telling := &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("proxy refused %q: %s", r.URL.String(), echo(r.Header))
	})}
	answers := map[string]func(r faulty.Request) Fault{
		"a document": func(r faulty.Request) Fault { return Fault{Document: echo(r.Header)} },
		"dropped":    func(faulty.Request) Fault { return Fault{Course: faulty.Course{Drop: true}} },
	}
	for _, status := range []int{307, 400, 401, 403, 404, 409, 412, 416, 500, 503} {
		answers[fmt.Sprint(status)] = func(r faulty.Request) Fault {
			return Fault{Status: status, Code: "Odd", Message: echo(r.Header)}
		}
		answers[fmt.Sprint(status, " without a code")] = func(r faulty.Request) Fault {
			return Fault{Status: status, Message: echo(r.Header)}
		}
	}
	calls := map[string]func(ctx context.Context, m *objectstore.Manager) error{
		"upload": func(ctx context.Context, m *objectstore.Manager) error {
			return m.UploadSegment(ctx, Segment(t), []byte("data"))
		},
		"fetch": func(ctx context.Context, m *objectstore.Manager) error {
			return m.FetchSegment(ctx, Segment(t), 0, make([]byte, 4))
		},
		"stat": func(ctx context.Context, m *objectstore.Manager) error {
			_, err := m.StatSegment(ctx, Segment(t))
			return err
		},
		"delete": func(ctx context.Context, m *objectstore.Manager) error {
			return m.DeleteSegments(ctx, Segment(t), Segment(t))
		},
		"list": func(ctx context.Context, m *objectstore.Manager) error {
			for _, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	failed := map[string]int{}
	for name, call := range calls {
		for situation, answer := range answers {
			place.Fake.Choose(func(r faulty.Request) F { return s.Fault(answer(r)) })
			if err := call(t.Context(), place.Manager(t, Options{MaxAttempts: 1})); err != nil { // some are no failure of some calls
				failed[name]++
				Quiet(t, name+", "+situation, err, secrets)
			}
		}
		assert.Greater(t, failed[name], len(answers)/2, "%s hardly ever fails: the test proves little", name)
		err := call(t.Context(), place.Manager(t, Options{MaxAttempts: 1, HTTPClient: telling}))
		require.Error(t, err, name)
		Quiet(t, name+", a transport that tells", err, secrets)
	}
}
