package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// L8: a segment closes at TargetBytes without waiting for the linger, and a batch that does not fit goes into the next.
func TestL8SegmentClosesAtTargetBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.Linger = time.Second })
		defer g.close()
		p := g.lead(0)
		for range 30 { // 30 x 20 KiB are two and a half segments
			p.appendSized(20 << 10)
		}
		time.Sleep(100 * time.Millisecond)
		sealed := seen(g, &g.sealed)
		require.Len(t, sealed, 2)
		for _, s := range sealed {
			assert.Equal(t, leader.SealFull, s.Reason)
			assert.Equal(t, 12*20<<10, s.BodyBytes)
			assert.Less(t, s.Open, 10*time.Millisecond)
		}
		time.Sleep(time.Second)
		p.requireWhole()
		assert.Equal(t, leader.SealLinger, seen(g, &g.sealed)[2].Reason)
	})
}

// L8, H5: MaxSlices closes a segment.
func TestH5SegmentClosesAtMaxSlices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.MaxSlices = 10 })
		defer g.close()
		var parts []*part
		for i := range int32(25) {
			parts = append(parts, g.lead(i))
		}
		for _, p := range parts {
			p.append("x")
		}
		g.flush()
		require.Len(t, g.events(), 3)
		for _, e := range g.events() {
			assert.LessOrEqual(t, e.Segment.Slices(), 10)
		}
		for _, p := range parts {
			p.requireWhole()
		}
	})
}

// L8, H5: ten thousand dirty partitions, each a topic of its own, make several events below MaxEventBytes and not one that
// the metadata log rejects for ever.
func TestH5EventsStayBelowMaxEventBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 64 << 10
		g := newRig(t, func(c *leader.Config) { c.MaxEventBytes, c.TargetBytes = most, 1<<20 })
		defer g.close()
		b := batchtest.Make(0, 0, "x")
		for i := range 10_000 {
			tp := segment.TopicIDPartition{TopicID: uuid.UUID{0: 1, 14: byte(i >> 8), 15: byte(i)}, Topic: fmt.Sprintf("topic-%05d", i)}
			log := memory.New(memory.Config{})
			start, err := log.Lead(1)
			require.NoError(t, err)
			_, _, err = log.Append(g.ctx, 1, b)
			require.NoError(t, err)
			_, err = g.up.Lead(tp, 1, start, log)
			require.NoError(t, err)
		}
		g.flush()
		total := 0
		for _, e := range g.events() {
			size := e.Segment.EncodedLen()
			assert.LessOrEqual(t, size, most)
			total += e.Segment.Slices()
		}
		assert.Equal(t, 10_000, total)
		assert.Empty(t, seen(g, &g.given))
	})
}

// KAFKA-9617, KAFKA-17375, S3: a batch larger than the target is in exactly one segment, its own, between its
// neighbours; sizes about the target are no trouble; and the buffer that it took is given back.
func TestKafka9617BatchLargerThanTheTarget(t *testing.T) {
	const target = 256 << 10
	for _, size := range []int{target - 1, target, target + 1, 3 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				p, q := g.lead(0), g.lead(1)
				for range 3 {
					q.append("neighbour")
					p.append("before")
					p.appendSized(size)
					p.append("after")
					q.append("neighbour")
				}
				g.flush()
				p.requireWhole()
				q.requireWhole()
				large := 0
				for _, s := range seen(g, &g.sealed) {
					if s.BodyBytes >= size {
						large++
						assert.Equal(t, size, s.BodyBytes)
						assert.Equal(t, 1, s.Slices)
					}
				}
				assert.Equal(t, 3, large)
				assert.LessOrEqual(t, g.up.Stats().BufferBytes, int64(10*target))
				assert.Empty(t, seen(g, &g.skipped))
			})
		})
	}
}

// KAFKA-9617, S3: a batch beyond MaxBytes is given up at once: the partition skips it, and goes on at the log's end.
func TestKafka9617BatchBeyondMaxBytesIsGivenUpAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.MaxBytes = 1 << 20 })
		defer g.close()
		p, q := g.lead(0), g.lead(1)
		p.append("before")
		p.appendSized(1<<20 + 1)
		q.append("x")
		start := time.Now()
		g.flush()
		assert.Less(t, time.Since(start), time.Second)
		skipped := seen(g, &g.skipped)
		require.Len(t, skipped, 1)
		assert.Equal(t, leader.Skipped{Partition: p.tp, LeaderEpoch: 1, From: 1, To: 2, Reason: leader.SkipTooLarge}, skipped[0])
		p.append("after")
		g.flush()
		q.requireWhole()
		all := g.of(p)
		require.Len(t, all, 2)
		assert.Equal(t, int64(2), all[1].BaseOffset, "a new run")
	})
}

// S3, L3: a batch that the store takes no object for is tried once.
func TestL3BatchTooLargeForTheStoreIsTriedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) {
			manager, driver := limitedStore(t, 1<<20)
			t.Cleanup(func() { _ = manager.Close() })
			_ = driver
			c.Storage = manager
		})
		defer g.close()
		p := g.lead(0)
		p.appendSized(2 << 20)
		g.flush()
		given := seen(g, &g.given)
		require.Len(t, given, 1)
		assert.Len(t, seen(g, &g.uploads), 1)
	})
}

// L8: no bytes, no object: Notifies without appends upload nothing and publish nothing.
func TestL8NoBytesNoObject(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		for range 100 {
			p.lead.Notify()
			time.Sleep(time.Millisecond)
		}
		g.flush()
		assert.Zero(t, g.driver.Calls("Put"))
		assert.Empty(t, g.events())
		assert.Zero(t, g.up.Stats().NoProgress)
	})
}

// A busy broker does not pay for each Notify with reads of its own: within a linger each partition is read a handful of
// times, though it is notified at every append.
func TestABusyPartitionIsReadAFewTimesPerLinger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		for range 10_000 { // a second of an append every 100 us
			p.append("x")
			time.Sleep(100 * time.Microsecond)
		}
		g.flush()
		p.requireWhole()
		s := g.up.Stats()
		assert.LessOrEqual(t, s.Sealed, int64(101))
		assert.LessOrEqual(t, s.Reads, int64(520))
		// and yet a record waits for no more than the linger before it is sealed
		for _, sealed := range seen(g, &g.sealed) {
			assert.LessOrEqual(t, sealed.Open, 10*time.Millisecond)
		}
	})
}

// The slices of a segment stand in the order of the partitions, whatever the order of the appends, and the creation time
// is that of the configured clock (D4).
func TestSegmentTellsItsTimeByTheConfiguredClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		skewed := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
		g := newRig(t, func(c *leader.Config) { c.Now = func() time.Time { return skewed } })
		defer g.close()
		p := g.lead(0)
		p.append("x")
		g.flush()
		assert.Equal(t, skewed, g.events()[0].Segment.Created)
	})
}

// A broken source of random bits loses the segment, says so, and nothing else.
func TestSegmentThatCannotBeSealedIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		random := &flaky{failures: 1}
		g := newRig(t, func(c *leader.Config) { c.Random = random })
		defer g.close()
		p := g.lead(0)
		p.append("lost")
		g.flush()
		require.Len(t, seen(g, &g.given), 1)
		p.append("next")
		g.flush()
		all := g.of(p)
		require.Len(t, all, 1)
		assert.Equal(t, int64(1), all[0].BaseOffset)
		s := g.up.Stats()
		assert.Equal(t, s.Sealed, s.Published+s.GivenUp)
	})
}

// S4: an event larger than what the log takes is ErrInvalid; that never happens here, whatever the names.
func TestH5LongTopicNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.MaxEventBytes = 4 << 10 })
		defer g.close()
		name := fmt.Sprintf("%0249d", 7)
		for i := range 40 {
			log := memory.New(memory.Config{})
			p := g.leadLog(segment.TopicIDPartition{TopicID: uuid.UUID{15: byte(i + 1)}, Topic: name}, log, 1)
			p.append("x")
		}
		g.flush()
		slices := 0
		for _, e := range g.events() {
			b, err := (&metadata.Event{Sequence: e.Sequence, ObjectSize: e.ObjectSize, Segment: e.Segment}).AppendBinary(nil)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(b), 4<<10)
			slices += e.Segment.Slices()
		}
		assert.Equal(t, 40, slices)
		assert.Empty(t, seen(g, &g.given))
	})
}

// flaky fails for the first reads, and then yields zeros but for a counter.
type flaky struct {
	failures int
	n        byte
}

func (f *flaky) Read(b []byte) (int, error) {
	if f.failures > 0 {
		f.failures--
		return 0, fmt.Errorf("no entropy")
	}
	f.n++
	clear(b)
	b[0] = f.n
	return len(b), nil
}

// L8: logs that are slow to read do not keep a segment open: it is sealed after twice the linger and one read at most,
// and those that were not read yet are in the next one.
func TestL8SlowLogsDoNotStretchTheLinger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const reading = 5 * time.Millisecond
		g := newRig(t, nil)
		defer g.close()
		var parts []*part
		for i := range int32(100) {
			p, log := g.leadScripted(i)
			log.script(func(s *scripted) {
				s.read = func(ctx context.Context, offset int64, dst []byte) (int, error) {
					time.Sleep(reading)
					return s.Log.Read(ctx, offset, dst)
				}
			})
			parts = append(parts, p)
		}
		time.Sleep(time.Millisecond)
		for _, p := range parts {
			p.append("a")
		}
		g.flush()
		for _, p := range parts {
			p.requireWhole()
		}
		for _, s := range seen(g, &g.sealed) {
			assert.LessOrEqual(t, s.Open, 20*time.Millisecond+reading)
		}
		assert.Less(t, len(seen(g, &g.sealed)), 50, "several to a segment all the same")
	})
}

// S3: the buffers of batches larger than TargetBytes are given back, those of a few times TargetBytes too.
func TestBuffersOfLargeBatchesAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const target = 32 << 10
		g := newRig(t, func(c *leader.Config) { c.TargetBytes = target })
		defer g.close()
		p := g.lead(0)
		for _, size := range []int{target + 1, 2 * target, 4 * target} {
			for range 16 {
				p.appendSized(size)
			}
			g.flush()
		}
		p.requireWhole()
		assert.Greater(t, g.up.Stats().PeakBufferBytes, int64(32*target), "there were several at once")
		assert.LessOrEqual(t, g.up.Stats().BufferBytes, int64(10*target))
	})
}

// A source of ids that fails for long is two lines in the log, not one per segment.
func TestSegmentsThatCannotBeSealedAreReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := &lines{}
		g := newRig(t, func(c *leader.Config) {
			c.Random, c.Logger = &flaky{failures: 20}, slog.New(slog.NewTextHandler(out, nil))
		})
		defer g.close()
		p := g.lead(0)
		for range 25 {
			p.append("a")
			g.flush()
		}
		require.Len(t, seen(g, &g.given), 20)
		all := out.all()
		require.Len(t, all, 2)
		assert.Contains(t, string(all[0]), "segments cannot be sealed")
		assert.Contains(t, string(all[1]), "segments can be sealed again")
	})
}
