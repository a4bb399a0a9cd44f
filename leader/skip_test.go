package leader_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// H1 (b), L11: after an outage the uploader does not send what nobody lacks any more: each partition skips to its end, and
// what is appended from then on is seen at once.
func TestH1SkipForwardAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.TargetBytes = 16 << 10 })
		defer g.close()
		var parts []*part
		for i := range int32(10) {
			parts = append(parts, g.lead(i))
		}
		for _, p := range parts {
			p.append("before")
		}
		g.flush()

		// given a store that is down for two minutes while every partition appends
		g.failPuts()
		for range 1200 {
			for _, p := range parts {
				p.appendSized(1000)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// when it comes back
		g.onPut(nil)
		uploaded := g.up.Stats().PublishedBytes
		time.Sleep(2 * time.Second)
		for _, p := range parts {
			p.append("tail")
		}
		time.Sleep(50 * time.Millisecond)

		// then the tail is published
		for _, p := range parts {
			end, _ := p.log.End()
			all := g.of(p)
			require.NotEmpty(t, all)
			assert.Equal(t, end-1, all[len(all)-1].LastOffset)
			for _, s := range all { // and no slice holds a jump: the runs begin anew behind each skip (S4)
				next := s.BaseOffset
				for b := batch.NewScanner(s.data); b.Next(); next = b.Header().NextOffset() {
					require.Equal(t, next, b.Header().BaseOffset)
				}
			}
		}
		assert.Less(t, g.up.Stats().PublishedBytes-uploaded, int64(1<<20), "of 12 MB little more than the last seconds")
		assert.NotEmpty(t, seen(g, &g.skipped))
		for _, s := range seen(g, &g.skipped) {
			assert.Equal(t, leader.SkipAge, s.Reason)
			assert.Less(t, s.From, s.To)
		}
	})
}

// L11, S4: the slice ends before the jump and a new run begins after it, in a segment of its own, so that readers see a gap
// between slices and not a compaction gap inside one.
func TestL11ASliceEndsBeforeTheJump(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.Linger = time.Second })
		defer g.close()
		p, log := g.leadScripted(0)
		p.append("a")
		time.Sleep(time.Millisecond) // read into the open segment
		// given the next read finds its offset below the log start
		log.script(func(s *scripted) {
			s.read = func(context.Context, int64, []byte) (int, error) { return 0, leader.ErrBelowLogStart }
		})
		p.append("b")
		p.append("c")
		time.Sleep(300 * time.Millisecond)
		log.script(func(s *scripted) { s.read = nil })
		p.append("d")
		g.flush()

		all := g.of(p)
		require.Len(t, all, 2)
		assert.EqualValues(t, 0, all[0].LastOffset)
		assert.EqualValues(t, 3, all[1].BaseOffset)
		assert.NotEqual(t, all[0].id, all[1].id)
		assert.Equal(t, []leader.Skipped{{Partition: p.tp, LeaderEpoch: 1, From: 1, To: 3, Reason: leader.SkipBelowLogStart}}, seen(g, &g.skipped))
	})
}

// L11: after an outage shorter than MaxBacklogAge nothing is skipped, although what waited waits still longer behind
// itself: ages are counted piece by piece. The partition is caught up over more than MaxBacklogAge without a skip, since
// what it reads grows younger all the while.
func TestL11CatchingUpIsNotFallingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) {
			c.MaxInFlightUploads, c.TargetBytes, c.MaxBacklogAge = 1, 16<<10, 1500*time.Millisecond
		})
		defer g.close()
		p := g.lead(0)
		p.append("x")
		g.flush()
		// given 1 s without store at 1.1 MB/s, and a store that takes seven batches in 11 ms: 1.4 MB/s
		feed := func(lasting time.Duration) {
			for end := time.Now().Add(lasting); time.Now().Before(end); {
				p.appendSized(2200)
				time.Sleep(2 * time.Millisecond)
			}
		}
		g.failPuts()
		feed(time.Second)
		g.onPut(nil)
		feed(8 * time.Second)
		assert.Empty(t, seen(g, &g.skipped))
		assert.Less(t, g.up.Stats().OldestUnserved, 100*time.Millisecond)
		g.flush()
		p.requireWhole()
	})
}

// R7: a slow store, at 80 % of what comes in. The age grows to MaxBacklogAge, the partition skips, and so on: the part
// that does not fit is left to the fallback, the rest goes through, and it is never much older than MaxBacklogAge.
func TestR7SlowStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) {
			c.MaxInFlightUploads, c.TargetBytes, c.MaxBacklogAge = 1, 16<<10, 500*time.Millisecond
		})
		defer g.close()
		p := g.lead(0)
		worst := time.Duration(0)
		for start := time.Now(); time.Since(start) < 15*time.Second; {
			p.appendSized(3200) // 1.78 MB/s against five batches in 11 ms, 1.45 MB/s
			time.Sleep(1800 * time.Microsecond)
			worst = max(worst, g.up.Stats().OldestUnserved)
		}
		assert.Less(t, worst, 700*time.Millisecond)
		end, _ := p.log.End()
		share := float64(g.up.Stats().SkippedOffsets) / float64(end)
		assert.InDelta(t, 0.18, share, 0.06, "what is missing in capacity, and no more")
		assert.LessOrEqual(t, len(seen(g, &g.skipped)), 10)
	})
}

// R7: the age is counted from Notify and never from the timestamps of records: a topic that is filled with old data does
// not skip.
func TestR7OldTimestampsAreNotAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		for i := range 100 {
			spec := batchtest.NewSpec(0, 0, "old")
			spec.BaseTimestamp, spec.MaxTimestamp = int64(i), int64(i) // 1970
			p.appendBatch(spec.Bytes())
			time.Sleep(5 * time.Millisecond)
		}
		g.flush()
		p.requireWhole()
		assert.Empty(t, seen(g, &g.skipped))
	})
}

// L11: a backlog of more than MaxBacklogBytes skips, however young: estimated from the mean size of an offset.
func TestL11BacklogBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.MaxBacklogBytes = 1 << 20 })
		defer g.close()
		p := g.lead(0)
		p.appendSized(10_000)
		g.flush()
		for range 90 { // 900 KB: below
			p.appendSized(10_000)
		}
		g.flush()
		assert.Empty(t, seen(g, &g.skipped))
		p.requireWhole()
		for range 200 { // 2 MB
			p.appendSized(10_000)
		}
		g.flush()
		require.Len(t, seen(g, &g.skipped), 1)
		assert.Equal(t, leader.SkipBytes, seen(g, &g.skipped)[0].Reason)
	})
}

// L11: the partitions of a broker do not all skip in one moment, and which one skips when is a pure function of seed and
// partition.
func TestL11SkipsAreJittered(t *testing.T) {
	run := func(t *testing.T, seed uint64) (at []string) {
		bubble(t, func(t *testing.T) {
			g := newRig(t, func(c *leader.Config) {
				c.Seed, c.MaxInFlightUploads, c.TargetBytes, c.MaxBacklogAge = seed, 1, 8<<10, time.Second
			})
			defer g.close()
			var parts []*part
			for i := range int32(8) {
				parts = append(parts, g.lead(i))
			}
			// given a store that is too slow for them all, and never quite stops
			for start := time.Now(); time.Since(start) < 3*time.Second; {
				for _, p := range parts {
					p.appendSized(2000)
				}
				time.Sleep(10 * time.Millisecond)
				for _, s := range seen(g, &g.skipped)[len(at):] {
					at = append(at, fmt.Sprintf("%s after %s", s.Partition, time.Since(start)))
				}
			}
		})
		return at
	}
	first, again, other := run(t, 1), run(t, 1), run(t, 2)
	require.GreaterOrEqual(t, len(first), 8)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, other)
	moments := map[string]bool{}
	for _, s := range first[:8] {
		moments[s[len("orders-0 after "):]] = true
	}
	assert.Greater(t, len(moments), 4)
}

// H2, apache/pulsar#13219, redpanda-data/redpanda#4624, L11: the log start moves past what is about to be read. No
// segment claims what is gone, and the next one declares where it begins.
func TestPulsar13219LogStartMovesPastTheCursor(t *testing.T) {
	for _, moves := range []string{"before the read", "while reading", "before the read, and the log does not mind"} {
		t.Run(moves, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				p, log := g.leadScripted(0)
				time.Sleep(time.Millisecond)
				for range 100 {
					_, _, err := p.log.Append(g.ctx, 1, batchtest.Make(0, 0, "x"))
					require.NoError(t, err)
				}
				// when DeleteRecords moves the log start to 50, before or in the middle of the first read
				switch moves {
				case "while reading":
					log.script(func(s *scripted) {
						s.read = func(ctx context.Context, offset int64, dst []byte) (int, error) {
							log.script(func(s *scripted) { s.read = nil })
							if err := p.log.DeleteRecords(50); err != nil {
								return 0, err
							}
							return p.log.Read(ctx, offset, dst)
						}
					})
				case "before the read":
					require.NoError(t, p.log.DeleteRecords(50))
				default: // the bytes are still there, and must not be shown any more
					log.script(func(s *scripted) { s.start = func() int64 { return 50 } })
				}
				p.lead.Notify()
				g.flush()

				// then nothing of 0 to 49 is published, and the partition goes on at its end
				assert.Empty(t, g.of(p))
				require.Len(t, seen(g, &g.skipped), 1)
				assert.Equal(t, leader.SkipBelowLogStart, seen(g, &g.skipped)[0].Reason)
				p.append("next")
				g.flush()
				all := g.of(p)
				require.Len(t, all, 1)
				assert.EqualValues(t, 100, all[0].BaseOffset)
				assert.Empty(t, seen(g, &g.failed))
			})
		})
	}
}

// H2: an epoch that began below the log start, as on a broker that has just rebuilt its log from the tier.
func TestH2EpochStartBelowTheLogStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		log := memory.New(memory.Config{Start: 1000})
		_, err := log.Lead(3)
		require.NoError(t, err)
		_, _, err = log.Append(g.ctx, 3, batchtest.Make(0, 0, "x"))
		require.NoError(t, err)
		lead, err := g.up.Lead(partitionOf(0), 3, 50, log)
		require.NoError(t, err)
		p := &part{g: g, tp: partitionOf(0), log: log, lead: lead, epoch: 3}
		g.flush()
		assert.Empty(t, g.events())
		p.append("y")
		g.flush()
		all := g.of(p)
		require.Len(t, all, 1)
		assert.EqualValues(t, 1001, all[0].BaseOffset)
		assert.EqualValues(t, 50, all[0].EpochStart)
	})
}

// S4: compaction gaps inside a run are legal; the slices declare them.
func TestS4CompactedLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		p.append("a")
		g.flush()
		// given records 1 to 8 that are compacted away before they are read, and one that is not
		for range 8 {
			_, _, err := p.log.Append(g.ctx, 1, batchtest.Make(0, 0, "x"))
			require.NoError(t, err)
		}
		p.log.Compact(1, 9)
		p.append("b")
		g.flush()
		all := g.of(p)
		require.Len(t, all, 2)
		assert.EqualValues(t, 1, all[1].BaseOffset, "the run goes on without a gap")
		assert.EqualValues(t, 9, all[1].LastOffset)
		p.requireWhole()

		// and an idle partition whose tail was compacted away is at rest: it is not read in a loop, nor ever too old
		for range 4 {
			_, _, err := p.log.Append(g.ctx, 1, batchtest.Make(0, 0, "x"))
			require.NoError(t, err)
		}
		p.log.Compact(10, 14)
		p.lead.Notify()
		g.flush()
		reads := g.up.Stats().Reads
		time.Sleep(time.Minute)
		assert.Equal(t, reads, g.up.Stats().Reads)
		p.append("c")
		g.flush()
		all = g.of(p)
		assert.EqualValues(t, 10, all[2].BaseOffset)
		assert.EqualValues(t, 14, all[2].LastOffset)
		assert.Empty(t, seen(g, &g.skipped))
	})
}

// H5, S4: no slice spans 2^31 offsets, which compaction can make of two neighbours: the second is in the next segment, or,
// where it is too far for any slice, begins a new run.
func TestH5OffsetsFarApart(t *testing.T) {
	const far = int64(1) << 31
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		log := memory.New(memory.Config{})
		for _, b := range [][]byte{
			batchtest.Make(0, 1, "a"), batchtest.Make(far-10, 1, "b"), batchtest.Make(far, 1, "c"), batchtest.Make(3*far, 1, "d"),
		} {
			require.NoError(t, log.AppendRaw(g.ctx, b))
		}
		lead, err := g.up.Lead(partitionOf(0), 1, 0, log)
		require.NoError(t, err)
		p := &part{g: g, tp: partitionOf(0), log: log, lead: lead, epoch: 1}
		g.flush()
		g.flush()
		all := g.of(p)
		require.Len(t, all, 3)
		var data []byte
		for _, s := range all {
			assert.Less(t, s.LastOffset-s.BaseOffset, far)
			data = append(data, s.data...)
		}
		assert.Equal(t, log.Bytes(0), data)
		skipped := seen(g, &g.skipped)
		require.Len(t, skipped, 1)
		assert.Equal(t, leader.SkipSpan, skipped[0].Reason)
		assert.Equal(t, 3*far, skipped[0].To)
	})
}

// A cursor inside a batch, which a contract breach or a repaired log may leave, skips too.
func TestL11CursorInsideABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		log := memory.New(memory.Config{})
		require.NoError(t, log.AppendRaw(g.ctx, batchtest.Make(0, 1, "a", "b", "c")))
		_, err := g.up.Lead(partitionOf(0), 1, 1, log)
		require.NoError(t, err)
		g.flush()
		require.Len(t, seen(g, &g.skipped), 1)
		assert.Equal(t, leader.SkipInsideBatch, seen(g, &g.skipped)[0].Reason)
		assert.Empty(t, g.events())
	})
}

// KAFKA-19530: what tells that the uploader is behind keeps growing while the store is down, though segments are given up
// and partitions skip meanwhile; and it is zero when there is nothing to do.
func TestKafka19530LagKeepsGrowing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.TargetBytes = 4 << 10 })
		defer g.close()
		p := g.lead(0)
		p.append("before")
		g.flush()
		time.Sleep(time.Hour)
		s := g.up.Stats()
		assert.Zero(t, s.NoProgress)
		assert.Zero(t, s.Lag)
		assert.Zero(t, s.OldestUnserved)

		g.failPuts()
		last := g.up.Stats()
		for range 60 {
			for range 100 {
				p.appendSized(1000)
				time.Sleep(10 * time.Millisecond)
			}
			s := g.up.Stats()
			assert.Equal(t, last.NoProgress+time.Second, max(s.NoProgress, time.Second))
			assert.LessOrEqual(t, s.Lag, 10*time.Second)
			assert.Positive(t, s.Lag)
			last = s
		}
		assert.Positive(t, last.GivenUp)
		assert.Positive(t, last.Skips)
		assert.Positive(t, last.FailedUploads)

		g.onPut(nil)
		g.flush()
		p.append("after")
		g.flush()
		time.Sleep(time.Second)
		s = g.up.Stats()
		assert.Zero(t, s.NoProgress)
		assert.Zero(t, s.Lag)
		assert.Equal(t, s.Sealed, s.Published+s.GivenUp)
	})
}

// L1: a store that hangs, refuses or is gone costs the producers nothing, and memory stays within its bound.
func TestL1AppendsNeverWait(t *testing.T) {
	for name, fault := range map[string]storemem.Fault{
		"hangs":    {Delay: time.Hour},
		"refuses":  {Err: errors.New("strange")},
		"is slow":  {Delay: 300 * time.Millisecond},
		"throttle": {Err: errors.New("slow down"), Delay: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const target = 16 << 10
				g := newRig(t, func(c *leader.Config) { c.TargetBytes = target })
				defer g.close()
				g.onPut(func(storemem.Call) storemem.Fault { return fault })
				var parts []*part
				for i := range int32(4) {
					parts = append(parts, g.lead(i))
				}
				for range 2000 {
					start := time.Now()
					for _, p := range parts {
						p.appendSized(1000)
					}
					require.Zero(t, time.Since(start))
					time.Sleep(5 * time.Millisecond)
				}
				assert.LessOrEqual(t, g.up.Stats().PeakBufferBytes, int64(10*target))
				g.onPut(nil)
				g.flush()
			})
		})
	}
}
