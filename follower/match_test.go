package follower_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// follows returns a rig whose follower follows p in epoch 1 and has opened its gate.
func follows(t *testing.T, change func(*follower.Config)) (*rig, segment.TopicIDPartition, *memory.Log, *follower.Following) {
	g := newRig(t, change)
	p, log := partitionOf(0), memory.New(memory.Config{})
	f := g.follow(p, 1, log)
	g.after(10 * time.Millisecond)
	require.Equal(t, follower.Replicating, f.State().Kind)
	return g, p, log, f
}

// F1, redpanda-data/redpanda#4007: an entry of an older epoch is stale, whatever it holds; one of a newer epoch waits until
// the broker says so.
func TestOnlyTheFollowedEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, log := partitionOf(0), memory.New(memory.Config{})
		older := g.follow(p, 2, log)
		g.after(10 * time.Millisecond)

		g.publish(part{partition: p, bytes: batchtest.Make(0, 1, "zombie"), from: 0, epoch: 1, start: 0})
		g.publish(part{partition: p, bytes: batchtest.Make(0, 3, "new"), from: 0, epoch: 3, start: 0})
		g.after(time.Second)
		end, _ := log.End()
		require.Zero(t, end)
		older.Observe(1) // which wakes the partition: it looks at what there is
		g.after(100 * time.Millisecond)
		end, _ = log.End()
		require.Zero(t, end, "an entry of another epoch is appended")

		// when the broker follows the newer epoch, whose leader holds the same
		_, err := g.leader(p).Lead(3)
		require.NoError(t, err)
		require.NoError(t, g.leader(p).AppendRaw(context.Background(), batchtest.Make(0, 3, "new")))
		newer := g.follow(p, 3, log)
		g.after(10 * time.Millisecond)
		g.equal(p, log)
		require.Equal(t, follower.Stopped, older.State().Kind)

		// and a zombie's slice that continues the log is still not used
		g.publish(part{partition: p, bytes: batchtest.Make(1, 2, "zombie"), from: 1, epoch: 2, start: 0})
		newer.Observe(2)
		g.after(100 * time.Millisecond)
		g.equal(p, log)
	})
}

// F2: a jump inside a slice is a compaction gap and is appended as it is; a jump between slices is a gap, and the range
// between comes from the leader (segmentio/kafka-go#621).
func TestGapInsideAndBetweenSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		g.append(p, 10)
		require.Equal(t, 3, g.leader(p).Compact(2, 5))
		require.Equal(t, 1, g.leader(p).Compact(0, 1))

		g.publish(part{partition: p, from: 0, to: 7})
		g.after(10 * time.Millisecond)
		end, _ := log.End()
		require.EqualValues(t, 7, end)
		require.Empty(t, g.fallbacks())

		g.publish(part{partition: p, from: 8, to: 10}) // offset 7 is never announced
		g.after(time.Second)
		g.equal(p, log)
		fallbacks := g.fallbacks()
		require.Len(t, fallbacks, 1)
		require.Equal(t, follower.Gap, fallbacks[0].Reason)
		require.EqualValues(t, 7, fallbacks[0].From)
		require.EqualValues(t, 8, fallbacks[0].To)
		require.Len(t, g.ranges(), 1)
	})
}

// F2, R4: the log's end must be exactly the end of one of the slice's batches. Inside a batch, or inside a compaction gap,
// it is MidBatch, however well the epochs match.
func TestLogEndInsideTheSlice(t *testing.T) {
	for _, test := range []struct {
		name    string
		batches [][]byte // the leader's log and the slice, in epoch 1
		end     int64    // the follower holds a batch [0,end)
		reason  follower.Reason
		from    int
	}{
		{"at the end of a batch", [][]byte{batchtest.Make(0, 1, "a", "b"), batchtest.Make(2, 1, "c")}, 2, "", 1},
		{"inside a batch", [][]byte{batchtest.Make(0, 1, "a", "b", "c"), batchtest.Make(3, 1, "d")}, 2, follower.MidBatch, 0},
		{"inside a compaction gap", [][]byte{batchtest.Make(0, 1, "a"), batchtest.Make(4, 1, "d")}, 2, follower.MidBatch, 0},
		{"at the end of a compaction gap", [][]byte{batchtest.Make(0, 1, "a"), batchtest.Make(4, 1, "d")}, 4, follower.MidBatch, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				p, log := partitionOf(0), memory.New(memory.Config{})
				// given a follower of the leader's epoch with an end inside of what the leader is about to publish
				own := batchtest.NewSpec(0, 1, "own")
				own.LastOffsetDelta = int32(test.end - 1)
				require.NoError(t, log.AppendRaw(context.Background(), own.Bytes()))
				require.NoError(t, log.Follow(1))
				_, err := g.leader(p).Lead(1)
				require.NoError(t, err)
				g.fetcher.set(func(int) error { return nil }, false)
				var all []byte
				for _, b := range test.batches {
					all = append(all, b...)
				}
				asked := make(chan int64, 8)
				fetcher := fetcherFunc(func(_ context.Context, to int64) (int64, error) {
					select {
					case asked <- to:
					default:
					}
					return test.end, nil // the leader's end is the follower's: nothing to fetch, nothing diverges
				})
				require.NoError(t, g.r.Close(context.Background()))
				g.cfg.Leader = fetcher
				g.r, err = follower.New(g.cfg)
				require.NoError(t, err)
				_, err = g.r.Follow(p, leaderID, 1, log)
				require.NoError(t, err)
				g.after(10 * time.Millisecond)

				// when the slice is announced
				g.publish(part{partition: p, bytes: all, from: 0, epoch: 1})
				g.after(10 * time.Millisecond)

				// then it continues the log, or the leader is asked up to the slice's end
				if test.reason == "" {
					require.Empty(t, g.fallbacks())
					require.Equal(t, test.batches[test.from], log.Bytes(test.end))
					return
				}
				end, _ := log.End()
				require.Equal(t, test.end, end)
				require.Equal(t, test.reason, g.fallbacks()[0].Reason)
				var useless *follower.SegmentError
				require.ErrorAs(t, g.fallbacks()[0].Err, &useless)
				require.EqualValues(t, -1, <-asked)
			})
		})
	}
}

// fetcherFunc is a LeaderFetcher.
type fetcherFunc func(ctx context.Context, to int64) (int64, error)

func (f fetcherFunc) FetchFromLeader(ctx context.Context, _ segment.TopicIDPartition, _ int32, to int64) (int64, error) {
	return f(ctx, to)
}

// F2: the epoch before the log's end must be the slice's, or the log's end is where that epoch began. This is the second
// defence: the gate is open here, by a leader that answers nil too easily.
func TestLineage(t *testing.T) {
	for _, test := range []struct {
		name    string
		start   int64 // of epoch 3, the slice's
		lineage bool
	}{
		{"the log end is the epoch's start", 1, false},
		{"the log end lies above the epoch's start", 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, func(c *follower.Config) {
					c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) { return 1, nil })
				})
				defer g.close()
				p, log := partitionOf(0), memory.New(memory.Config{})
				require.NoError(t, log.AppendRaw(context.Background(), batchtest.Make(0, 1, "of epoch 1")))
				require.NoError(t, log.Follow(3))
				_, err := g.r.Follow(p, leaderID, 3, log)
				require.NoError(t, err)
				g.after(10 * time.Millisecond)

				g.publish(part{partition: p, bytes: batchtest.Make(1, 3, "of epoch 3"), from: 1, epoch: 3, start: test.start})
				g.after(10 * time.Millisecond)

				end, _ := log.End()
				if test.lineage {
					require.EqualValues(t, 1, end)
					require.Equal(t, follower.Lineage, g.fallbacks()[0].Reason)
				} else {
					require.EqualValues(t, 2, end)
					require.Empty(t, g.fallbacks())
				}
			})
		})
	}
}

// F3: a batch whose epoch is not the entry's ends the slice: the prefix is kept, the rest comes from the leader (C2h).
func TestPrefixOfTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		g.append(p, 3)
		// given a slice whose last batch carries another epoch; the builder would refuse it, so its bytes are changed after
		object, event := g.seal(part{partition: p, from: 0, to: 3})
		slice := &event.Segment.Topics[0].Slices[0]
		last := len(batchtest.Make(0, 1, "value"))
		body := object[segment.HeaderLength : segment.HeaderLength+slice.Length]
		body[2*last+15] = 9
		object, event = g.reseal(object, event)
		g.store(object, event)
		g.announce(event)
		g.after(10 * time.Millisecond)

		require.Len(t, g.appended, 1)
		require.EqualValues(t, 2, g.appended[0].To)
		require.Len(t, g.fallbacks(), 1)
		require.EqualValues(t, 2, g.fallbacks()[0].From)
		g.equal(p, log)
	})
}

// F3: whatever is wrong with a segment, nothing of it is appended; it is fetched once more, and then the leader helps
// (F5). Jepsen on NATS 2.12.1: a stored object cut at any byte is always noticed.
func TestDamagedSegments(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(data []byte) []byte
	}{
		{"a bit of a batch", func(d []byte) []byte { d[segment.HeaderLength+70] ^= 1; return d }},
		{"a bit of the base offset, which no batch CRC covers", func(d []byte) []byte { d[segment.HeaderLength+7] ^= 1; return d }},
		{"a bit of the index", func(d []byte) []byte { d[len(d)-segment.TrailerLength-3] ^= 1; return d }},
		{"a bit of the header", func(d []byte) []byte { d[0] ^= 1; return d }},
		{"cut short", func(d []byte) []byte { return d[:len(d)-1] }},
		{"cut to nothing", func(d []byte) []byte { return nil }},
		{"another segment", func(d []byte) []byte { return otherObject(len(d)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, _ := follows(t, nil)
				defer g.close()
				g.append(p, 2)
				object, event := g.seal(part{partition: p, from: 0, to: 2})
				g.store(object, event)
				require.NoError(t, g.driver.Store().Damage(g.driver.Store().Keys()[0], test.damage))
				g.announce(event)
				g.after(time.Second)

				g.equal(p, log)
				require.Zero(t, g.r.Stats().Batches)
				fallbacks := g.fallbacks()
				require.Len(t, fallbacks, 1)
				require.Equal(t, follower.Corrupt, fallbacks[0].Reason)
				require.ErrorContains(t, fallbacks[0].Err, event.Segment.ID.String())
				require.Equal(t, 2, g.driver.Calls("Get"), "fetched once more")
			})
		})
	}
}

func otherObject(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i)
	}
	return data
}

// F3: bytes damaged on the way are read anew, and nobody falls back.
func TestDamagedOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, nil)
		defer g.close()
		g.damageNextGet(8 * (segment.HeaderLength + 70))
		g.produce(p, 2)
		g.after(time.Second)
		g.equal(p, log)
		require.Empty(t, g.fallbacks())
		require.Equal(t, 2, g.driver.Calls("Get"))
	})
}

// KAFKA-17375, KAFKA-9617, KAFKA-6003: what the leader holds is always replicable, whatever its size and whatever its
// producer's sequence numbers (F8).
func TestLargeBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p, log, _ := follows(t, func(c *follower.Config) { c.MaxParkedBytes = 64 << 10 })
		defer g.close()
		for _, b := range [][]byte{batchtest.V1(), batchtest.Sized(0, 0, 3<<20, 'x'), batchtest.V1()} {
			from, _ := g.leader(p).End()
			_, _, err := g.leader(p).Append(context.Background(), 1, b)
			require.NoError(t, err)
			to, _ := g.leader(p).End()
			g.publish(part{partition: p, from: from, to: to})
		}
		g.after(time.Second)
		g.equal(p, log)
		require.Empty(t, g.fallbacks())
		require.EqualValues(t, 3, g.r.Stats().Batches)
	})
}

// S2, F8: a batch is opaque. What its producer has written into it, be it odd, passes from the store into the log byte for
// byte: a payload that its codec can't read (twmb/franz-go#854), counts that fit nothing (KAFKA-6554,
// segmentio/kafka-go#1438), a checksum of zero (redpanda-data/redpanda#4113), every combination of attributes with the
// timestamps, producer fields and checksum that belong to it (redpanda-data/redpanda#27671), producer sequences that jump
// and repeat (KAFKA-6003), and one producer repeating itself beside another (apache/kafka#2910).
func TestOddBatchesAreAppendedUntouched(t *testing.T) {
	given := map[string][]byte{}
	for _, name := range []string{"V1", "V4", "V6", "V7", "V8", "V10"} {
		given[name] = batchtest.Vectors()[name]
	}
	var all, jumps []byte
	for attributes := range int16(64) {
		spec := batchtest.NewSpec(100+int64(attributes), 5, "value")
		spec.Attributes = attributes
		spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = int64(attributes), 3, 9
		all = append(all, spec.Bytes()...)
	}
	for i, of := range []struct {
		producer int64
		sequence int32
	}{{7, 40}, {7, 90}, {7, 90}, {9, 0}} {
		spec := batchtest.NewSpec(100+int64(i), 5, "value")
		spec.ProducerID, spec.BaseSequence = of.producer, of.sequence
		jumps = append(jumps, spec.Bytes()...)
	}
	given["every attribute"], given["sequences"] = all, jumps
	for name, bytes := range given {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p := newRig(t, nil), partitionOf(0)
				defer g.close()
				log, _ := g.at100(p)
				g.after(10 * time.Millisecond)
				g.fetcher.set(func(int) error { return errRefused }, false)
				g.publish(part{partition: p, bytes: bytes, from: 100, epoch: 5, start: 100})
				g.after(10 * time.Millisecond)
				require.Equal(t, bytes, log.Bytes(100))
				require.Empty(t, g.fallbacks())
			})
		})
	}
}

// F3: what is stored under the segment's key must be the segment that the event names, in every respect: of the cluster,
// with the id, and with the topic's slice.
func TestAnotherSegmentUnderTheKey(t *testing.T) {
	other := partitionOf(0)
	other.TopicID[0] = 9
	for _, test := range []struct {
		name   string
		object func(g *rig, event *metadata.Event) []byte
	}{
		{"of another cluster", func(g *rig, event *metadata.Event) []byte {
			return g.sealAs("best-cluster", event.Segment.ID, part{partition: partitionOf(0), from: 0, to: 2})
		}},
		{"of another id", func(g *rig, event *metadata.Event) []byte {
			id := event.Segment.ID
			id.UUID[15] ^= 1
			return g.sealAs(cluster, id, part{partition: partitionOf(0), from: 0, to: 2})
		}},
		{"of another topic", func(g *rig, event *metadata.Event) []byte {
			return g.sealAs(cluster, event.Segment.ID, part{partition: other, bytes: g.read(partitionOf(0), 0, 2), epoch: 1})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, p, log, _ := follows(t, nil)
				defer g.close()
				g.append(p, 2)
				object, event := g.seal(part{partition: p, from: 0, to: 2})
				foreign := test.object(g, event)
				require.Len(t, foreign, len(object))
				g.store(foreign, event)
				g.announce(event)
				g.after(time.Second)
				g.equal(p, log)
				require.Zero(t, g.r.Stats().Batches)
				require.Len(t, g.fallbacks(), 1)
				require.Equal(t, follower.Corrupt, g.fallbacks()[0].Reason)
			})
		})
	}
}

// F2, F6: a lineage that does not match shuts the gate, so that what the log tells afterwards does not matter before the
// leader has answered.
func TestLineageShutsTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		log := &stubLog{end: 1, epoch: 1, append: func(int32) (int64, error) { return 2, nil }}
		g := newRig(t, func(c *follower.Config) {
			c.Leader = fetcherFunc(func(context.Context, int64) (int64, error) {
				if refuses.Load() {
					return 0, errRefused
				}
				return 1, nil
			})
		})
		defer g.close()
		p := partitionOf(0)
		_, err := g.r.Follow(p, leaderID, 3, log)
		require.NoError(t, err)
		g.after(10 * time.Millisecond)
		refuses.Store(true)
		g.publish(part{partition: p, bytes: batchtest.Make(1, 3, "value"), from: 1, epoch: 3})
		g.after(10 * time.Millisecond)
		require.Equal(t, follower.Lineage, g.fallbacks()[0].Reason)
		log.mu.Lock()
		log.epoch = -1
		log.mu.Unlock()
		g.after(5 * time.Second)
		require.Zero(t, log.appends())
		refuses.Store(false)
		g.after(2 * time.Second)
		require.Equal(t, 1, log.appends())
	})
}
