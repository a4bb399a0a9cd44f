package objectstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// W2: what an upload makes of the answers to its creates, and which requests it sends for it. A create whose answer is
// lost is repeated; only "exists" leads to a Stat, and a Stat that finds nothing to another create.
func TestLostAnswerToACreate(t *testing.T) {
	ours, theirs := []byte("our bytes"), []byte("not ours!")
	exists := walstorage.NewError(walstorage.ErrSegmentExists, nil)
	missing := walstorage.NewError(walstorage.ErrSegmentNotFound, nil)
	type script []memory.Fault

	tests := map[string]struct {
		before []byte // what is stored under the key already
		puts   script
		stats  script
		want   error
		stored []byte
		nPut   int
		nStat  int
	}{
		"no fault": {nil, nil, nil, nil, ours, 1, 0},
		"C9: the answer is lost after the store has committed": {
			nil, script{{ErrAfter: busy()}}, nil, nil, ours, 2, 1,
		},
		"C9: the answer comes after the attempt's deadline": {
			nil, script{{AnswerDelay: time.Minute}}, nil, nil, ours, 2, 1,
		},
		"C10: the answer is lost, and another writer's segment is there": {
			theirs, script{{Err: busy()}}, nil, walstorage.ErrSegmentExists, theirs, 2, 1,
		},
		"C1: another writer's segment is there": {
			theirs, nil, nil, walstorage.ErrSegmentExists, theirs, 1, 1,
		},
		"the same bytes are there": {
			ours, nil, nil, nil, ours, 1, 1,
		},
		"a segment of another size is there": {
			ours[:8], nil, nil, walstorage.ErrSegmentExists, ours[:8], 1, 1,
		},
		"C11: the answer is lost, and the Stat is refused": {
			nil, script{{ErrAfter: busy()}}, script{{Err: refused()}}, walstorage.ErrUnavailable, ours, 2, 1,
		},
		"C11: the answer is lost, and the Stat fails in an unknown way": {
			nil, script{{ErrAfter: busy()}}, script{{Err: errors.New("odd")}}, walstorage.ErrUnavailable, ours, 2, 1,
		},
		"C11: the answer is lost, and the Stat is busy at first": {
			nil, script{{ErrAfter: busy()}}, script{{Err: busy()}, {Err: busy()}}, nil, ours, 2, 3,
		},
		"C13, apache/opendal#6741: conflict, try again": {
			nil, script{{Err: busy()}}, nil, nil, ours, 2, 0,
		},
		"apache/opendal#6741: exists is final": {
			theirs, script{{Err: exists}}, nil, walstorage.ErrSegmentExists, theirs, 1, 1,
		},
		"googleapis/google-cloud-go#6547: 503, then stored": {
			nil, script{{Err: busy()}}, nil, nil, ours, 2, 0,
		},
		"googleapis/google-cloud-go#6547: exists, and the Stat finds nothing": {
			nil, script{{Err: exists}}, nil, nil, ours, 2, 1,
		},
		"googleapis/google-cloud-go#6547: exists, and the Stat finds nothing, twice": {
			nil, script{{Err: exists}, {Err: exists}}, script{{Err: missing}, {Err: missing}}, nil, ours, 3, 2,
		},
		"distribution/distribution#4571: applied and reported as failed, twice": {
			nil, script{{ErrAfter: busy()}, {ErrAfter: busy()}}, nil, nil, ours, 3, 1,
		},
		"lands late, before the create is repeated": {
			nil, script{{LandLate: 1}}, nil, nil, ours, 2, 1,
		},
		"the store finds the body damaged": {
			nil, script{{FlipBit: 10}}, nil, walstorage.ErrCorrupt, nil, 1, 0,
		},
		"the store finds the body cut": {
			nil, script{{Truncate: 1}}, nil, walstorage.ErrCorrupt, nil, 1, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
				id := segment(1)
				if test.before != nil {
					driver.Store().Put(keyOf(id), test.before, time.Now())
				}
				puts, stats := memory.Sequence("Put", test.puts...), memory.Sequence("Stat", test.stats...)
				driver.Fault(func(call memory.Call) memory.Fault {
					if call.Method == "Stat" {
						return stats(call)
					}
					return puts(call)
				})

				err := manager.UploadSegment(t.Context(), id, ours)

				if test.want == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, test.want)
					e := asError(t, err)
					assert.Equal(t, walstorage.OpUpload, e.Op)
					assert.Equal(t, id, e.ID)
					assert.Equal(t, test.nPut+test.nStat, e.Attempts)
				}
				stored, _ := driver.Store().Object(keyOf(id))
				assert.Equal(t, test.stored, stored)
				assert.Equal(t, test.nPut, driver.Calls("Put"), "creates")
				assert.Equal(t, test.nStat, driver.Calls("Stat"), "stats")
				assert.Zero(t, driver.Calls("Get"), "the store tells a checksum")
			})
		})
	}
}

// C11, W2: an upload whose outcome could not be settled says so as ErrUnavailable, never as "refused", and the same
// upload again settles it.
func TestUnsettledUploadIsSettledByTheSameUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		driver.Fault(func(call memory.Call) memory.Fault {
			switch {
			case call.Method == "Stat":
				return memory.Fault{Err: refused()}
			case call.Number == 1:
				return memory.Fault{ErrAfter: busy()}
			}
			return memory.Fault{}
		})

		err := manager.UploadSegment(t.Context(), segment(1), []byte("a"))

		require.ErrorIs(t, err, walstorage.ErrUnavailable)
		require.NotErrorIs(t, err, walstorage.ErrAccessDenied)
		require.ErrorContains(t, err, "access denied: 403", "the refusal is told")

		driver.Fault(nil)
		require.NoError(t, manager.UploadSegment(t.Context(), segment(1), []byte("a")))
	})
}

// C12: the answer is lost and the caller gives up meanwhile. The error is the caller's own; nobody may rely on the
// segment's absence (W1), and the same upload again gives nil.
func TestLostAnswerAndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{AnswerDelay: time.Hour} })
		time.AfterFunc(100*time.Millisecond, cancel)

		err := manager.UploadSegment(ctx, segment(1), []byte("a"))

		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, walstorage.ErrUnavailable)
		require.Len(t, driver.Store().Keys(), 1)

		driver.Fault(nil)
		require.NoError(t, manager.UploadSegment(t.Context(), segment(1), []byte("a")))
	})
}

// apache/opendal#6741: a store that says "try again" for ever gives ErrUnavailable within the limit, never "exists".
func TestConflictForEverIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{MaxAttempts: 4}, memory.Config{})
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: busy()} })

		err := manager.UploadSegment(t.Context(), segment(1), []byte("a"))

		require.ErrorIs(t, err, walstorage.ErrUnavailable)
		require.NotErrorIs(t, err, walstorage.ErrSegmentExists)
		require.Equal(t, 4, driver.Calls("Put"))
	})
}

// W2: a store that says "exists" and then shows nothing, over and over, ends within the same limits.
func TestExistsWithoutObjectEndsWithinTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{MaxAttempts: 3}, memory.Config{})
		driver.Fault(func(call memory.Call) memory.Fault {
			if call.Method == "Put" {
				return memory.Fault{Err: walstorage.NewError(walstorage.ErrSegmentExists, nil)}
			}
			return memory.Fault{}
		})

		err := manager.UploadSegment(t.Context(), segment(1), []byte("a"))

		require.ErrorIs(t, err, walstorage.ErrUnavailable)
		require.NotErrorIs(t, err, walstorage.ErrSegmentNotFound, "an upload does not end in not found")
		require.Equal(t, 3, driver.Calls("Put"))
		require.Equal(t, 3, driver.Calls("Stat"))
	})
}

// W2 where the store tells no checksum: the object is read and compared, in ranges of bounded size.
func TestCompareWithoutChecksum(t *testing.T) {
	const size = 2<<20 + 3
	data := pattern(size)
	tests := map[string]struct {
		stored func() []byte
		want   error
		gets   int
	}{
		"the same bytes":          {func() []byte { return data }, nil, 3},
		"the last byte differs":   {func() []byte { d := bytes.Clone(data); d[size-1]++; return d }, walstorage.ErrSegmentExists, 3},
		"the first byte differs":  {func() []byte { d := bytes.Clone(data); d[0]++; return d }, walstorage.ErrSegmentExists, 1},
		"another size, no read":   {func() []byte { return data[:size-1] }, walstorage.ErrSegmentExists, 0},
		"empty, against our data": {func() []byte { return nil }, walstorage.ErrSegmentExists, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, driver := newManager(t, objectstore.Config{}, memory.Config{NoCRC32C: true})
				driver.Store().Put(keyOf(segment(1)), test.stored(), time.Now())

				err := manager.UploadSegment(t.Context(), segment(1), data)

				require.ErrorIs(t, err, test.want)
				require.Equal(t, test.gets, driver.Calls("Get"))
			})
		})
	}

	t.Run("both empty", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{NoCRC32C: true})
			require.NoError(t, manager.UploadSegment(t.Context(), segment(1), nil), "B17")
			require.NoError(t, manager.UploadSegment(t.Context(), segment(1), []byte{}))
			require.Zero(t, driver.Calls("Get"))
		})
	})

	t.Run("a read that fails at first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{NoCRC32C: true})
			driver.Store().Put(keyOf(segment(1)), data, time.Now())
			driver.Fault(memory.Sequence("Get", memory.Fault{Truncate: 1}, memory.Fault{}, memory.Fault{Err: busy()}))
			require.NoError(t, manager.UploadSegment(t.Context(), segment(1), data))
			require.Equal(t, 5, driver.Calls("Get"))
		})
	})

	t.Run("deleted between Stat and read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{NoCRC32C: true})
			driver.Store().Put(keyOf(segment(1)), data, time.Now())
			driver.Fault(func(call memory.Call) memory.Fault {
				if call.Method == "Get" {
					driver.Store().Remove(call.Key)
				}
				return memory.Fault{}
			})
			require.NoError(t, manager.UploadSegment(t.Context(), segment(1), data), "created anew")
			require.Equal(t, 2, driver.Calls("Put"))
		})
	})
}

// C2: of several uploads of different bytes under one id exactly one wins, and it is stored whole.
func TestConcurrentUploadsOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		contents := make([][]byte, 16)
		errs := make([]error, len(contents))
		var all sync.WaitGroup
		for i := range contents {
			contents[i] = bytes.Repeat([]byte{byte(i)}, 100+i)
			manager, _ := newManager(t, objectstore.Config{}, memory.Config{Store: store}) // C3: a handle each
			all.Go(func() { errs[i] = manager.UploadSegment(t.Context(), segment(1), contents[i]) })
		}
		all.Wait()

		winner := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, winner, "two winners")
				winner = i
				continue
			}
			require.ErrorIs(t, err, walstorage.ErrSegmentExists)
		}
		stored, _ := store.Object(keyOf(segment(1)))
		require.Equal(t, contents[winner], stored)
	})
}

// report 37, J10: each attempt sends the same bytes, and the attempts of one call never overlap.
func TestEveryAttemptSendsTheSameBytesAndNoneOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hashes [][sha256.Size]byte
		var running atomic.Int32
		driver := &stub{put: func(_ context.Context, body *objectstore.Body) error {
			assert.Equal(t, int32(1), running.Add(1))
			defer running.Add(-1)
			sent, err := io.ReadAll(body)
			assert.NoError(t, err)
			hashes = append(hashes, sha256.Sum256(sent))
			time.Sleep(time.Millisecond)
			if len(hashes) < 4 {
				return busy()
			}
			return nil
		}}
		data := pattern(100_000)

		require.NoError(t, manage(t, driver, objectstore.Config{}).UploadSegment(t.Context(), segment(1), data))

		require.Len(t, hashes, 4)
		for _, hash := range hashes {
			require.Equal(t, sha256.Sum256(data), hash)
		}
	})
}

// L7, W5: a transport that reads on after the driver has returned gets an error, and never the next content of the
// caller's buffer.
func TestBodyIsRevokedWhenTheAttemptIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []*objectstore.Body
		driver := &stub{put: func(_ context.Context, body *objectstore.Body) error {
			kept = append(kept, body)
			switch len(kept) {
			case 1:
				return busy()
			case 2:
				panic("broken")
			}
			return nil
		}}
		data := pattern(1000)

		require.NoError(t, manage(t, driver, objectstore.Config{}).UploadSegment(t.Context(), segment(1), data))

		clear(data)
		require.Len(t, kept, 3)
		for _, body := range kept {
			n, err := body.Read(make([]byte, 10))
			require.Zero(t, n)
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF, "an end would look like a whole body")
		}
	})
}

// mem9-ai/drive9#845: a write that its caller has given up on lands later. It lands whole and with the bytes it had when
// it was sent, under its own name; whoever uploaded meanwhile under another name is not touched.
func TestCancelledUploadLandsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{MaxAttempts: 1}, memory.Config{})
		driver.Fault(memory.Sequence("Put", memory.Fault{LandLate: time.Minute}))
		buffer := []byte("first")

		require.ErrorIs(t, manager.UploadSegment(t.Context(), segment(1), buffer), walstorage.ErrUnavailable)
		copy(buffer, "other") // the buffer is the caller's again
		require.NoError(t, manager.UploadSegment(t.Context(), segment(2), buffer))

		_, found := driver.Store().Object(keyOf(segment(1)))
		require.False(t, found)
		time.Sleep(time.Minute)
		late, _ := driver.Store().Object(keyOf(segment(1)))
		require.Equal(t, "first", string(late))
		second, _ := driver.Store().Object(keyOf(segment(2)))
		require.Equal(t, "other", string(second))
	})
}

// mem9-ai/drive9#845 with the same id again: the late arrival never changes what was stored meanwhile.
func TestLateArrivalNeverOverwrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		driver.Fault(memory.Sequence("Put", memory.Fault{LandLate: time.Minute}))
		require.NoError(t, manager.UploadSegment(t.Context(), segment(1), []byte("same")), "the second attempt stores it")

		time.Sleep(time.Hour)

		info, err := manager.StatSegment(t.Context(), segment(1))
		require.NoError(t, err)
		require.Less(t, time.Until(info.Stored), -59*time.Minute, "it is the object of the second attempt")
	})
}

// W7: what can never succeed is refused without a request.
func TestUploadArguments(t *testing.T) {
	manager, driver := newManager(t, objectstore.Config{}, memory.Config{ObjectBytes: 10})
	negative := segment(1)
	negative.BrokerEpoch = -1
	tests := map[string]struct {
		id   walstorage.SegmentID
		size int
		want error
	}{
		"zero id":        {walstorage.SegmentID{}, 1, walstorage.ErrInvalidArgument},
		"invalid id":     {negative, 1, walstorage.ErrInvalidArgument},
		"too large, B12": {segment(1), 11, walstorage.ErrTooLarge},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := manager.UploadSegment(t.Context(), test.id, make([]byte, test.size))

			require.ErrorIs(t, err, test.want)
			require.Zero(t, asError(t, err).Attempts)
			require.Equal(t, test.id, asError(t, err).ID)
		})
	}
	require.Zero(t, driver.Calls("Put"))
	require.NoError(t, manager.UploadSegment(t.Context(), segment(1), make([]byte, 10)), "the limit itself")
}

// J19, W7: only ErrUnavailable is worth a retry.
func TestWhatIsNotRetried(t *testing.T) {
	kinds := []error{
		walstorage.ErrSegmentNotFound, walstorage.ErrInvalidRange, walstorage.ErrInvalidArgument, walstorage.ErrTooLarge,
		walstorage.ErrCorrupt, walstorage.ErrAccessDenied, walstorage.ErrBucketNotFound, walstorage.ErrNoSpace,
		walstorage.ErrClosed,
	}
	for _, kind := range kinds {
		t.Run(kind.Error(), func(t *testing.T) {
			manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
			driver.Fault(func(memory.Call) memory.Fault {
				return memory.Fault{Err: walstorage.NewError(kind, errors.New("detail"))}
			})

			for call, err := range map[string]error{
				"Put":  manager.UploadSegment(t.Context(), segment(1), []byte("a")),
				"Get":  manager.FetchSegment(t.Context(), segment(1), 0, make([]byte, 1)),
				"Stat": second(manager.StatSegment(t.Context(), segment(1))),
			} {
				require.ErrorIs(t, err, kind)
				require.ErrorContains(t, err, "detail")
				require.Equal(t, 1, driver.Calls(call))
			}
		})
	}
	t.Run("unclassified", func(t *testing.T) {
		manager, driver := newManager(t, objectstore.Config{}, memory.Config{})
		driver.Fault(func(memory.Call) memory.Fault { return memory.Fault{Err: errors.New("what is this?")} })

		err := manager.UploadSegment(t.Context(), segment(1), []byte("a"))

		require.Error(t, err)
		require.NoError(t, walstorage.KindOf(err), "no kind")
		require.ErrorContains(t, err, "what is this?")
		require.Equal(t, 1, driver.Calls("Put"))
	})
}

func second[T any](_ T, err error) error { return err }
