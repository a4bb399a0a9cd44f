package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// limitedStore returns a manager over a driver that takes objects up to a size.
func limitedStore(t *testing.T, most int64) (*objectstore.Manager, *storemem.Driver) {
	t.Helper()
	driver := storemem.New(storemem.Config{ObjectBytes: most})
	manager, err := objectstore.New(driver, objectstore.Config{Cluster: cluster})
	require.NoError(t, err)
	return manager, driver
}

// keepsPublishing lets q append every linger while something else is wrong, and asserts that each of its batches is
// published within so long.
func keepsPublishing(g *rig, q *part, lasting, within time.Duration) {
	g.t.Helper()
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		q.append("tick")
		due := time.Now().Add(within)
		time.Sleep(10 * time.Millisecond)
		if time.Now().Before(due) {
			time.Sleep(time.Until(due))
		}
		q.requireWhole()
	}
}

// Aiven-Open/tiered-storage-for-apache-kafka#820 (a), L3, W5: a Put that ignores its context and never returns.
// StuckAfter past its deadline the segment is given up, and what waited behind it is published; the call keeps its slot
// and its buffer until it returns, and its late return changes nothing.
func TestAiven820UploadThatNeverReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, q := g.lead(0), g.lead(1)
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Hang: true} })
		p.append("hangs")
		time.Sleep(15 * time.Millisecond)
		g.onPut(nil)
		q.append("waits behind it") // order: it cannot overtake
		time.Sleep(9*time.Second + 900*time.Millisecond)
		assert.Empty(t, g.events())
		assert.Empty(t, seen(g, &g.given))
		assert.Greater(t, g.up.Stats().Lag, 9*time.Second, "lag is visible meanwhile")

		time.Sleep(200 * time.Millisecond) // 10 s after sealing
		given := seen(g, &g.given)
		require.Len(t, given, 1)
		require.ErrorIs(t, given[0].Err, leader.ErrStuck)
		q.requireWhole()
		s := g.up.Stats()
		assert.Equal(t, 1, s.Stuck)
		assert.Equal(t, 1, s.InFlight)

		// (c) everything else goes on every tick, p too
		keepsPublishing(g, q, time.Second, 30*time.Millisecond)
		p.append("later")
		g.flush()
		before, events := g.up.Stats(), len(g.events())

		// when it returns at last
		g.driver.Release()
		time.Sleep(time.Second)
		after := g.up.Stats()
		assert.Zero(t, after.Stuck)
		assert.Zero(t, after.InFlight)
		assert.Equal(t, before.Published, after.Published)
		assert.Equal(t, before.GivenUp, after.GivenUp)
		assert.Len(t, g.events(), events, "its segment is an orphan")
	})
}

// Aiven-Open/tiered-storage-for-apache-kafka#820, L3: every slot stuck is the store down: memory stays bounded, appends
// go on, and once the calls return so do uploads.
func TestAiven820AllSlotsStuckIsTheStoreDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const target = 16 << 10
		g := newRig(t, func(c *leader.Config) { c.TargetBytes = target })
		defer g.close()
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Hang: true} })
		p := g.lead(0)
		start := time.Now()
		for range 2000 {
			p.appendSized(4 << 10)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, 20*time.Second, time.Since(start), "L1: no append has waited")
		s := g.up.Stats()
		assert.Equal(t, 8, s.Stuck)
		assert.LessOrEqual(t, s.PeakBufferBytes, int64(10*target))
		assert.Greater(t, s.NoProgress, 19*time.Second)

		g.onPut(nil)
		g.driver.Release()
		g.flush() // what is too old by now is skipped
		require.Len(t, seen(g, &g.skipped), 1)
		p.append("tail")
		g.flush()
		all := g.of(p)
		end, _ := p.log.End()
		require.NotEmpty(t, all)
		assert.Equal(t, end-1, all[len(all)-1].LastOffset)
		assert.Zero(t, g.up.Stats().Stuck)
	})
}

// panicky is a storage or metadata log that panics for as long as it is told to.
type panicky struct {
	walstorage.WalStorageManager
	metadata.Log
	storage, log atomic.Bool
}

func (p *panicky) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	if p.storage.Load() {
		panic("backend")
	}
	return p.WalStorageManager.UploadSegment(ctx, id, data)
}

func (p *panicky) Publish(ctx context.Context, events ...*metadata.Event) (int, error) {
	if p.log.Load() {
		panic(errors.New("metadata"))
	}
	return p.Log.Publish(ctx, events...)
}

func (p *panicky) Close() error { return nil }

// Aiven-Open/tiered-storage-for-apache-kafka#820 (b), L10: a panic in the store or the metadata log is contained, counted
// and reported; the call is repeated, and once it works nothing is missing.
func TestAiven820PanicsAreContained(t *testing.T) {
	for where, which := range map[string]func(p *panicky) *atomic.Bool{
		"Storage.UploadSegment": func(p *panicky) *atomic.Bool { return &p.storage },
		"Metadata.Publish":      func(p *panicky) *atomic.Bool { return &p.log },
	} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				double := &panicky{}
				g := newRig(t, func(c *leader.Config) {
					double.WalStorageManager, double.Log = c.Storage, c.Metadata
					c.Storage, c.Metadata = double, double
				})
				defer g.close()
				p := g.lead(0)
				which(double).Store(true)
				p.append("a")
				time.Sleep(time.Second)
				panics := seen(g, &g.panics)
				require.NotEmpty(t, panics)
				assert.Contains(t, panics[0], where)
				assert.EqualValues(t, len(panics), g.up.Stats().Panics)
				assert.LessOrEqual(t, len(panics), 20, "with pauses")

				which(double).Store(false)
				p.append("b")
				g.flush()
				p.requireWhole()
				assert.Empty(t, seen(g, &g.given))
			})
		})
	}
}

// L10, Aiven-Open/tiered-storage-for-apache-kafka#820 (c): a log that panics, hangs or fails is tried again with pauses
// and reported once; the other partitions publish every tick as if nothing was; and once it works nothing of it is
// missing.
func TestL10ALogThatFailsHurtsNobodyElse(t *testing.T) {
	for name, tc := range map[string]struct {
		breakIt func(s *scripted)
		where   string
	}{
		"Read panics": {func(s *scripted) {
			s.read = func(context.Context, int64, []byte) (int, error) { panic("disk") }
		}, "Log.Read"},
		"End panics":   {func(s *scripted) { s.end = func() (int64, int32) { panic("disk") } }, "Log.End"},
		"Start panics": {func(s *scripted) { s.start = func() int64 { panic("disk") } }, "Log.Start"},
		"Read fails": {func(s *scripted) {
			s.read = func(context.Context, int64, []byte) (int, error) { return 0, errors.New("i/o error") }
		}, ""},
		"Read returns more than there is": {func(s *scripted) {
			s.read = func(_ context.Context, _ int64, dst []byte) (int, error) { return len(dst) + 1, nil }
		}, ""},
		"Read asks for room that it has": {func(s *scripted) {
			s.read = func(_ context.Context, _ int64, dst []byte) (int, error) {
				return 0, &leader.ShortBufferError{Need: len(dst)}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				p, log := g.leadScripted(0)
				q := g.lead(1)
				p.append("before")
				g.flush()

				log.script(tc.breakIt)
				p.append("while broken")
				reads := log.readCalls()
				keepsPublishing(g, q, time.Second, 30*time.Millisecond)
				require.Len(t, seen(g, &g.failed), 1, "once, not per try")
				assert.Equal(t, p.tp, seen(g, &g.failed)[0].partition)
				assert.Equal(t, 1, g.up.Stats().FailedPartitions)
				assert.LessOrEqual(t, log.readCalls()-reads, 20, "with pauses")
				if tc.where != "" {
					require.NotEmpty(t, seen(g, &g.panics))
					assert.Contains(t, seen(g, &g.panics)[0], tc.where)
				}

				log.script(func(s *scripted) { s.read, s.end, s.start = nil, nil, nil })
				g.flush()
				p.requireWhole()
				q.requireWhole()
				assert.Equal(t, []segment.TopicIDPartition{p.tp}, seen(g, &g.recovered))
				assert.Zero(t, g.up.Stats().FailedPartitions)
				assert.Empty(t, seen(g, &g.skipped))
			})
		})
	}
}

// L10: a Read that hangs holds up the other partitions no longer than StuckAfter: it is cancelled, and its partition
// pauses longer and longer.
func TestL10AReadThatHangsIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.StuckAfter = time.Second; c.MaxBacklogAge = time.Minute })
		defer g.close()
		p, log := g.leadScripted(0)
		q := g.lead(1)
		time.Sleep(time.Millisecond)
		log.script(func(s *scripted) {
			s.read = func(ctx context.Context, _ int64, _ []byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
		})
		p.append("hangs")
		time.Sleep(time.Millisecond)
		q.append("waits")
		time.Sleep(time.Second + 30*time.Millisecond)
		q.requireWhole()
		require.Len(t, seen(g, &g.failed), 1)
		require.ErrorIs(t, seen(g, &g.failed)[0].err, context.Canceled)
		log.script(func(s *scripted) { s.read = nil })
		g.flush()
		p.requireWhole()
	})
}

// answers is a Read that returns the given bytes from any offset.
func answers(b []byte) func(s *scripted) {
	return func(s *scripted) {
		s.read = func(_ context.Context, _ int64, dst []byte) (int, error) { return copy(dst, b), nil }
	}
}

// aiven/inkless#260, L8: a log that yields nothing but rejected bytes is reported, uploads no object and publishes
// nothing, and the next good batch goes through. The partition skips the bad ones: to read them again gives the same.
func TestInkless260OnlyRejectedBytes(t *testing.T) {
	v1 := batchtest.V1()
	for name, bad := range map[string][]byte{
		"V5: negative span":      batchtest.V5(),
		"a truncated V1":         v1[:40],
		"V9: old record format":  batchtest.V9(),
		"not a batch":            make([]byte, 61),
		"below the run's offset": batchtest.Make(0, 5, "stale"),
		"an older epoch":         batchtest.Make(100, 4, "zombie"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				// given a log at offset 100 in epoch 5
				log := &scripted{Log: memory.New(memory.Config{Start: 100})}
				_, err := log.Lead(5)
				require.NoError(t, err)
				log.script(answers(bad))
				log.script(func(s *scripted) { s.end = func() (int64, int32) { return 102, 5 } })
				lead, err := g.up.Lead(partitionOf(0), 5, 100, log)
				require.NoError(t, err)

				// when a linger has passed
				time.Sleep(10 * time.Millisecond)
				g.flush()

				// then there is one error, and no object
				require.Len(t, seen(g, &g.failed), 1)
				assert.Zero(t, g.driver.Calls("Put"))
				assert.Empty(t, g.events())
				require.Len(t, seen(g, &g.skipped), 1)
				assert.Equal(t, int64(102), seen(g, &g.skipped)[0].To)

				// and the next good batch is one Put and one event
				log.script(answers(batchtest.Make(102, 5, "good")))
				log.script(func(s *scripted) { s.end = func() (int64, int32) { return 103, 5 } })
				lead.Notify()
				time.Sleep(time.Second)
				assert.Equal(t, 1, g.driver.Calls("Put"))
				require.Len(t, g.events(), 1)
				assert.Len(t, seen(g, &g.recovered), 1)
			})
		})
	}
}

// aiven/inkless#260: of a mixed buffer the good prefix is published, the rest is reported.
func TestInkless260MixedBuffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		log := &scripted{Log: memory.New(memory.Config{Start: 100})}
		_, err := log.Lead(5)
		require.NoError(t, err)
		log.script(answers(append(batchtest.V1(), batchtest.V5()...)))
		log.script(func(s *scripted) { s.end = func() (int64, int32) { return 110, 5 } })
		_, err = g.up.Lead(partitionOf(0), 5, 100, log)
		require.NoError(t, err)
		g.flush()
		all := g.slices()
		require.Len(t, all, 1)
		assert.Equal(t, batchtest.V1(), all[0].data)
		require.Len(t, seen(g, &g.failed), 1)
		require.ErrorIs(t, seen(g, &g.failed)[0].err, walstorage.ErrCorrupt)
	})
}

// S2, F3: a batch that is damaged in the leader's log goes out byte for byte, its own checksum as wrong as it is there: the
// append of a follower sees the damage. A checksum computed anew would hide it for ever.
func TestS2DamageInTheLogStaysVisible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := g.leadScripted(0)
		p.append("good")
		g.flush()
		damaged := batchtest.Make(1, 1, "damaged")
		damaged[len(damaged)-1] ^= 1
		log.script(answers(damaged))
		p.append("damaged")
		g.flush()

		all := g.of(p)
		require.Len(t, all, 2)
		assert.Equal(t, damaged, all[1].data)
		assert.Error(t, batch.VerifyCRC(all[1].data))
	})
}

// L4: at a batch of a newer epoch the partition rests without an error, as the Lead of that epoch is about to come.
func TestBatchOfANewerEpochWaitsForItsLead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		p.append("old")
		time.Sleep(50 * time.Millisecond)
		// given the log leads epoch 2 already, and the uploader has not been told
		start, err := p.log.Lead(2)
		require.NoError(t, err)
		_, _, err = p.log.Append(g.ctx, 2, batchtest.Make(0, 0, "new"))
		require.NoError(t, err)
		p.lead.Notify()
		g.flush()
		assert.Empty(t, seen(g, &g.failed))
		assert.Empty(t, seen(g, &g.skipped))
		assert.Zero(t, g.up.Stats().OldestUnserved)
		// when it is told
		_, err = g.up.Lead(p.tp, 2, start, p.log)
		require.NoError(t, err)
		g.flush()
		all := g.of(p)
		require.Len(t, all, 2)
		assert.Equal(t, int32(2), all[1].LeaderEpoch)
		assert.Equal(t, start, all[1].BaseOffset)
	})
}

// L10, F7: the hook that is told of a panic in a log may resign the partition. It is called once the visit is over, else
// Resign would wait for a visit that waits for the hook.
func TestL10PanicHookMayResign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p *part
		g := newRig(t, func(c *leader.Config) {
			c.Hooks.Panic = func(string, any) { p.lead.Resign() }
		})
		defer g.close()
		p, log := g.leadScripted(0)
		q := g.lead(1)
		time.Sleep(time.Millisecond)
		log.script(func(s *scripted) {
			s.end = func() (int64, int32) { panic("disk") }
			s.read = func(context.Context, int64, []byte) (int, error) { panic("disk") }
		})
		p.append("lost")
		time.Sleep(time.Second)
		keepsPublishing(g, q, 100*time.Millisecond, 30*time.Millisecond)
		assert.Equal(t, 1, g.up.Stats().Partitions)
		assert.Equal(t, int64(1), g.up.Stats().Panics)
	})
}

// panicsAfterwards is a metadata log that panics once it has stored the events of the first call, with an error that
// Publish returns where nothing was stored.
type panicsAfterwards struct {
	metadata.Log
	value error
	calls int
}

func (p *panicsAfterwards) Publish(ctx context.Context, events ...*metadata.Event) (int, error) {
	stored, err := p.Log.Publish(ctx, events...)
	if p.calls++; p.calls == 1 {
		panic(p.value)
	}
	return stored, err
}

// L5, R12, L10: what Publish panics with is no answer, though it be metadata.ErrInvalid or ErrFenced: the outcome is
// unknown, the event is repeated unchanged, and its sequence is used for no other.
func TestR12PanicOfThePublicationIsAnUnknownOutcome(t *testing.T) {
	for _, value := range []error{metadata.ErrInvalid, metadata.ErrClosed, metadata.ErrFenced} {
		t.Run(value.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, func(c *leader.Config) { c.Metadata = &panicsAfterwards{Log: c.Metadata, value: value} })
				defer g.close()
				p := g.lead(0)
				p.append("a")
				g.flush()
				p.append("b")
				g.flush()
				require.NoError(t, g.up.Err())
				assert.Empty(t, seen(g, &g.given))
				p.requireWhole()
				used := map[int64]walstorage.SegmentID{}
				for _, e := range g.events() {
					if id, again := used[e.Sequence]; again {
						assert.Equal(t, id, e.Segment.ID, "sequence %d names two segments", e.Sequence)
					}
					used[e.Sequence] = e.Segment.ID
				}
				assert.Len(t, used, 2)
			})
		})
	}
}
