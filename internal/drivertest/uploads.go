package drivertest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/faulty"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// BufferAfterACancelledUpload proves L7, W5: a buffer is its owner's again when the upload has returned. 1,500 uploads are
// cancelled at whatever moment, over pipes that hold nothing, so that it is often in the middle of the body, over sockets
// and over TLS; the server reads, or answers first and goes on reading. The race detector sees no touch, and neither an
// object nor what came over the wire holds a byte that was written afterwards. Nor is an object the half of an upload (W1).
func BufferAfterACancelledUpload[F any](t *testing.T, s Subject[F]) {
	const cancels = 500 // over each of the three
	over := s.sockets()
	over["pipes"] = func(tb testing.TB) Place[F] { return s.Pipes(tb, 0) }
	for name, start := range over {
		t.Run(name, func(t *testing.T) {
			place := start(t)
			manager := place.Manager(t, Options{MaxAttempts: 1})
			early := s.Fault(Fault{Course: faulty.Course{Early: true, ReadOn: true}, Status: 503, Code: s.Busy})
			place.Fake.Choose(func(r faulty.Request) (fault F) {
				if r.Number%3 == 0 {
					fault = early
				}
				return fault
			})
			ours, foreign := bytes.Repeat([]byte{1}, 96<<10), bytes.Repeat([]byte{2}, 96<<10)
			data := make([]byte, len(ours))
			var stored, cancelled, answered int
			for i := 0; cancelled < cancels; i++ {
				copy(data, ours)
				ctx, cancel := context.WithCancel(t.Context())
				var timer *time.Timer
				if i%5 > 0 { // the fifth is let be
					timer = time.AfterFunc(time.Duration(i%300)*3*time.Microsecond, cancel)
				}
				err := manager.UploadSegment(ctx, Segment(t), data)
				copy(data, foreign)
				switch walstorage.KindOf(err) {
				case nil:
					require.NoError(t, err)
					stored++
				case context.Canceled:
					cancelled++
				case walstorage.ErrUnavailable:
					answered++
				default:
					t.Fatal(err)
				}
				if timer != nil {
					timer.Stop()
				}
				cancel()
			}
			t.Logf("%d stored, %d cancelled, %d answered early", stored, cancelled, answered)
			assert.Greater(t, stored, 10, "hardly an upload was stored: the test proves nothing")
			assert.Greater(t, answered, 10, "hardly an answer came early: the test proves nothing")
			for _, key := range place.Fake.Keys(Bucket) {
				object, _ := place.Fake.Object(Bucket, key)
				require.True(t, bytes.Equal(ours, object), "%s holds %d bytes that are not those of the upload", key, len(object))
			}
			for i, r := range place.Fake.Came() {
				require.Negative(t, bytes.IndexByte(r.Body, 2), "request %d was sent with bytes written after the upload had returned", i)
			}
		})
	}
}

// EachAttemptSendsTheSameBytes proves J10, over http and over TLS.
func EachAttemptSendsTheSameBytes[F any](t *testing.T, s Subject[F]) {
	content := s.Content
	if content == nil {
		content = func(r faulty.Request) []byte { return r.Body }
	}
	for name, start := range s.sockets() {
		t.Run(name, func(t *testing.T) {
			place := start(t)
			manager, id := place.Manager(t, Options{}), Segment(t)
			place.Fake.Faults(s.Put, s.Fault(Fault{Status: 500}), s.Fault(Fault{Course: faulty.Course{Drop: true}}))
			data := make([]byte, 300_000)
			for i := range data {
				data[i] = byte(i * 7)
			}

			require.NoError(t, manager.UploadSegment(t.Context(), id, data))
			want := string(data)
			clear(data) // ours again

			var sent []string
			for _, r := range place.Fake.Came() {
				if r.Op == s.Put && len(r.Body) > 0 {
					sent = append(sent, string(content(r)))
				}
			}
			require.Len(t, sent, 2) // the one that was dropped before its body was read has none
			assert.Equal(t, want, sent[0])
			assert.Equal(t, want, sent[1])
		})
	}
}

// Create is what becomes of the upload of a segment with the bytes "ours".
type Create[F any] struct {
	// Script are the faults of the first requests.
	Script []F
	// Stored is what somebody else has stored before, "" for nothing.
	Stored string
	// Attempts are the attempts allowed. Default: many.
	Attempts int
	// Kind is that of the error, nil for success.
	Kind error
	// Creates and Stats are how many requests there are.
	Creates, Stats int
}

// Creates proves C9 to C15, J19 (W2) for each case: whatever becomes of the answer to a create, it ends with the truth, and
// "not now" is no "exists".
func Creates[F any](t *testing.T, s Subject[F], tests map[string]Create[F]) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := s.Pipes(t, 0)
				manager, id := place.Manager(t, Options{MaxAttempts: test.Attempts}), Segment(t)
				if test.Stored != "" {
					place.Fake.Store(Bucket, Key(t, id), []byte(test.Stored))
				}
				place.Fake.Faults(s.Put, test.Script...)

				err := manager.UploadSegment(t.Context(), id, []byte("ours"))

				assert.Equal(t, test.Kind, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, test.Kind == nil, err == nil, "%v", err)
				assert.Equal(t, test.Creates, place.Fake.Count(s.Put))
				assert.Equal(t, test.Stats, place.Fake.Count(s.Stat))
				if err == nil {
					stored, _ := place.Fake.Object(Bucket, Key(t, id))
					assert.Equal(t, "ours", string(stored))
				}
			})
		})
	}
}

// LostAnswerAndNoCheck proves C11: where the answer was lost and the check fails too, the outcome is unknown; the same
// upload again settles it.
func LostAnswerAndNoCheck[F any](t *testing.T, s Subject[F]) {
	for name, check := range map[string]Fault{"refused": {Status: 403, Code: s.Refused}, "down": {Status: 503, Code: s.Busy}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := s.Pipes(t, 0)
				manager, id := place.Manager(t, Options{MaxAttempts: 3}), Segment(t)
				lost, check := s.Fault(Fault{Course: faulty.Course{DropAfter: true}}), s.Fault(check)
				place.Fake.Choose(func(r faulty.Request) (fault F) {
					switch {
					case r.Op == s.Put && r.Number == 1:
						fault = lost
					case r.Op == s.Stat:
						fault = check
					}
					return fault
				})
				err := manager.UploadSegment(t.Context(), id, []byte("ours"))
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)

				place.Fake.Choose(func(faulty.Request) (none F) { return none })
				assert.NoError(t, manager.UploadSegment(t.Context(), id, []byte("ours")))
				assert.ErrorIs(t, manager.UploadSegment(t.Context(), id, []byte("other")), walstorage.ErrSegmentExists)
			})
		})
	}
}

// StalledUpload proves J14, J13: an upload to a server that reads nothing, or never answers, ends by the watch and is tried
// again.
func StalledUpload[F any](t *testing.T, s Subject[F]) {
	synctest.Test(t, func(t *testing.T) {
		place := s.Pipes(t, 0)
		manager, id := place.Manager(t, Options{StallTimeout: 2 * time.Second, AttemptTimeout: time.Minute}), Segment(t)
		place.Fake.Faults(s.Put, s.Fault(Fault{Course: faulty.Course{Wait: make(chan struct{})}}))
		began := time.Now()

		require.NoError(t, manager.UploadSegment(t.Context(), id, make([]byte, 300_000)))

		assert.Equal(t, 2, place.Fake.Count(s.Put))
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

// Early is an answer to an upload of [EarlyBytes] as "k", sent before its body was read, and the kind of the error that it
// leads to.
type Early struct {
	Answer Fault
	Kind   error
	// Credible says that the answer is what a true one would be, but for its time. A socket may take in the whole body
	// before the client looks, and so may a server that reads on: it is told over pipes, which hold nothing, by a server that
	// does not.
	Credible bool
}

// EarlyBytes is the size of the upload that is answered early: more than what lies between client and server.
const EarlyBytes = 4 << 20

// EarlyAnswers proves that an answer that comes before the body was read ends the upload with what it says, and that the
// body is not touched any more (W5), whether the server then reads on or closes the connection, over http and TLS. Credible
// answers are told over pipes.
func EarlyAnswers[F any](t *testing.T, s Subject[F], answers []Early) {
	for name, start := range s.sockets() {
		t.Run(name, func(t *testing.T) {
			place := start(t)
			began := time.Now()
			for _, early := range answers {
				if early.Credible {
					continue
				}
				for _, readOn := range []bool{false, true} {
					s.answerEarly(t, place, early, readOn)
				}
			}
			assert.Less(t, time.Since(began), time.Minute, "nobody waits")
			assert.Empty(t, place.Fake.Keys(Bucket))
		})
	}
	for _, early := range answers {
		if !early.Credible {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			place := s.Pipes(t, 0)
			s.answerEarly(t, place, early, false)
			assert.Empty(t, place.Fake.Keys(Bucket))
			time.Sleep(time.Second) // net/http keeps what it closes for half a second, and the bubble waits for no clock
		})
	}
}

// answerEarly uploads twice to a server that answers each upload so.
func (s Subject[F]) answerEarly(t *testing.T, place Place[F], early Early, readOn bool) {
	driver := place.Driver(t, Options{})
	data := make([]byte, EarlyBytes)
	answer := early.Answer
	answer.Early, answer.ReadOn = true, readOn
	place.Fake.Always(s.Put, s.Fault(answer))
	put := func() error {
		clear(data)
		body := objectstore.NewBody(data)
		err := driver.Put(t.Context(), "k", body, Checksum(data))
		body.Revoke()
		data[0]++ // ours again; the race detector watches
		return err
	}
	for range 2 {
		err := put()
		// Where the server does not read on, its close may overtake the answer on a busy machine, and a lost connection is all
		// that can be seen. It is repeated then, as a Manager would.
		mayBeLost := !readOn && early.Kind != walstorage.ErrUnavailable
		for tries := 0; mayBeLost && errors.Is(err, walstorage.ErrUnavailable) && tries < 20; tries++ {
			err = put()
		}
		assert.Equal(t, early.Kind, walstorage.KindOf(err), "%+v: %v", answer, err)
	}
}
