package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// slowPut makes the first Put take so much longer than the others.
func slowPut(more time.Duration) func(storemem.Call) storemem.Fault {
	return func(call storemem.Call) storemem.Fault {
		if call.Number == 1 {
			return storemem.Fault{Delay: more}
		}
		return storemem.Fault{}
	}
}

// L2: the event is published after the upload has returned, and not before.
func TestL2NothingIsPublishedBeforeItIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		gate := make(chan struct{})
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Wait: gate} })
		p := g.lead(0)
		p.append("a")
		time.Sleep(400 * time.Millisecond) // before the attempt's deadline
		require.Len(t, seen(g, &g.sealed), 1)
		assert.Empty(t, g.events())
		close(gate)
		g.flush()
		p.requireWhole()
	})
}

// L3: several uploads are in flight, and published in the order of sealing with dense sequences, whichever is stored
// first. L5: what was stored meanwhile goes into one call.
func TestL3PublicationIsInTheOrderOfSealing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		var calls []int
		g.publishFaults(func(call memlog.PublishCall) memlog.PublishFault {
			calls = append(calls, call.Events)
			return memlog.PublishFault{}
		})
		g.onPut(slowPut(200 * time.Millisecond))
		p, q := g.lead(0), g.lead(1)
		p.append("first")
		time.Sleep(15 * time.Millisecond)
		for i := range 4 {
			q.append(fmt.Sprint("q", i))
			time.Sleep(15 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		assert.EqualValues(t, 5, g.up.Stats().InFlight, "stored and not yet published counts as in flight")
		assert.EqualValues(t, 4, g.up.Stats().Stored)
		assert.Empty(t, g.events())

		g.flush()

		assert.Equal(t, upTo(5), g.sequences())
		assert.Equal(t, []int{5}, calls)
		var sealed []walstorage.SegmentID
		for _, s := range seen(g, &g.sealed) {
			sealed = append(sealed, s.ID)
		}
		for i, e := range g.events() {
			assert.Equal(t, sealed[i], e.Segment.ID)
		}
		p.requireWhole()
		q.requireWhole()
	})
}

// L3: a failed upload is repeated under the same id until it succeeds; a lost answer stores nothing twice (W2).
func TestL3FailedUploadIsRetriedUnderTheSameID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// given a manager that does not retry at all, as a stranger's may not
		g := newRig(t, nil)
		defer g.close()
		var ids []walstorage.SegmentID
		g.onPut(func(call storemem.Call) storemem.Fault {
			ids = append(ids, call.Segment)
			switch len(ids) {
			case 1: // unclassified: the manager does not repeat it
				return storemem.Fault{Err: errors.New("strange")}
			case 2:
				return storemem.Fault{Err: walstorage.NewError(walstorage.ErrAccessDenied, nil)}
			case 3: // stored, and the answer lost
				return storemem.Fault{ErrAfter: errors.New("strange")}
			}
			return storemem.Fault{}
		})
		p := g.lead(0)
		p.append("a")
		g.flush()

		require.Len(t, ids, 4)
		for _, id := range ids {
			assert.Equal(t, ids[0], id)
		}
		assert.Len(t, g.driver.Store().Keys(), 1)
		p.requireWhole()
		uploads := seen(g, &g.uploads)
		require.Len(t, uploads, 4)
		assert.Equal(t, 4, uploads[3].Attempt)
		require.ErrorIs(t, uploads[1].Err, walstorage.ErrAccessDenied)
		assert.EqualValues(t, 3, g.up.Stats().FailedUploads)
	})
}

// L3: what a retry cannot mend is given up at once, everything else after GiveUpAfter. What was sealed later goes on,
// and takes the next sequence: the segment given up had none.
func TestL3GiveUp(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		after time.Duration
	}{
		"too large":        {walstorage.NewError(walstorage.ErrTooLarge, nil), putLatency},
		"invalid argument": {walstorage.NewError(walstorage.ErrInvalidArgument, nil), putLatency},
		"unavailable":      {walstorage.NewError(walstorage.ErrUnavailable, nil), 5 * time.Second},
		"access denied":    {walstorage.NewError(walstorage.ErrAccessDenied, nil), 5 * time.Second},
		"unclassified":     {errors.New("strange"), 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				var poison atomic.Pointer[walstorage.SegmentID]
				g.onPut(func(call storemem.Call) storemem.Fault {
					poison.CompareAndSwap(nil, &call.Segment)
					if call.Segment == *poison.Load() {
						return storemem.Fault{Err: tc.err}
					}
					return storemem.Fault{}
				})
				p, q := g.lead(0), g.lead(1)
				p.append("lost")
				time.Sleep(15 * time.Millisecond) // sealed
				start := time.Now()
				q.append("q")
				p.append("later")
				g.flush()

				given := seen(g, &g.given)
				require.Len(t, given, 1)
				require.ErrorContains(t, given[0].Err, tc.err.Error())
				assert.Equal(t, int64(-1), given[0].Sequence)
				assert.False(t, given[0].Stored)
				assert.InDelta(t, tc.after, time.Since(start), float64(50*time.Millisecond))
				assert.Equal(t, upTo(len(g.events())), g.sequences())
				q.requireWhole()
				// R3: the cursor stayed: the next slice begins where the lost one ended, with a gap that readers see
				all := g.of(p)
				require.Len(t, all, 1)
				assert.Equal(t, int64(1), all[0].BaseOffset)
				assert.EqualValues(t, 1, g.up.Stats().GivenUp)
			})
		})
	}
}

// L6: the existence of an object fences nothing. An object with other bytes that is there already under the id of a new
// segment costs that segment, and the broker goes on.
func TestL6AnObjectFencesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var g *rig
		sealed := 0
		g = newRig(t, func(c *leader.Config) {
			c.Hooks.SegmentSealed = func(s leader.Sealed) {
				if sealed++; sealed == 1 { // its upload has not begun
					require.NoError(t, g.manager.UploadSegment(g.ctx, s.ID, []byte("another")))
				}
			}
		})
		defer g.close()
		p := g.lead(0)
		p.append("lost")
		time.Sleep(100 * time.Millisecond)
		given := seen(g, &g.given)
		require.Len(t, given, 1)
		require.ErrorIs(t, given[0].Err, walstorage.ErrSegmentExists)
		require.NoError(t, g.up.Err(), "the broker is fenced by an object")

		p.append("later")
		g.flush()
		all := g.of(p)
		require.Len(t, all, 1)
		assert.Equal(t, int64(1), all[0].BaseOffset)
		assert.Equal(t, []int64{0}, g.sequences())
	})
}

// apache/fluss#2766: the sixth of ten uploads fails for good; the first five are published without waiting for that, and
// the last four after it, with dense sequences.
func TestFluss2766OneOfTenUploadsFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) { c.MaxInFlightUploads = 16 })
		defer g.close()
		g.onPut(func(call storemem.Call) storemem.Fault {
			if sealed := seen(g, &g.sealed); len(sealed) >= 6 && call.Segment == sealed[5].ID {
				return storemem.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, nil)}
			}
			return storemem.Fault{}
		})
		p := g.lead(0)
		for i := range 10 {
			p.append(fmt.Sprint(i))
			time.Sleep(15 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		assert.Equal(t, upTo(5), g.sequences())
		assert.EqualValues(t, 9, g.up.Stats().Stored)
		g.flush()
		assert.Equal(t, upTo(9), g.sequences())
		require.Len(t, seen(g, &g.given), 1)
	})
}

// R3: a poison segment is not built again: giving it up does not move cursors back, so neither the poison nor the
// thousand other partitions in its segment are uploaded a second time.
func TestR3GiveUpDoesNotRewind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		// given a store that never takes a segment that holds the poison
		poisoned := map[walstorage.SegmentID]bool{}
		g.onPut(func(call storemem.Call) storemem.Fault {
			if call.Size > 100_000 {
				poisoned[call.Segment] = true
				return storemem.Fault{Err: walstorage.NewError(walstorage.ErrTooLarge, nil)}
			}
			return storemem.Fault{}
		})
		var parts []*part
		for i := range int32(50) {
			parts = append(parts, g.lead(i))
		}
		time.Sleep(time.Millisecond)
		// when it is sealed together with many others
		for _, p := range parts {
			p.append("first")
		}
		parts[0].appendSized(100_000)
		g.flush()
		// then it was tried once
		assert.Len(t, poisoned, 1)
		require.Len(t, seen(g, &g.given), 1)
		// and everyone goes on right after it
		for _, p := range parts {
			p.append("second")
		}
		g.flush()
		assert.Len(t, poisoned, 1)
		for _, p := range parts {
			all := g.of(p)
			require.Len(t, all, 1)
			end, _ := p.log.End()
			assert.Equal(t, end-1, all[0].BaseOffset)
		}
	})
}

// R3 (b): a segment that is stored and waits behind one that is given up is published then, in order, whole.
func TestR3WhatWaitsBehindAGivenUpSegmentIsPublished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		g.onPut(func(call storemem.Call) storemem.Fault {
			if call.Number == 1 {
				return storemem.Fault{Delay: time.Hour} // every attempt of it would time out
			}
			return storemem.Fault{Err: nil}
		})
		first := g.lead(0)
		first.append("s1")
		time.Sleep(15 * time.Millisecond)
		ids := seen(g, &g.sealed)
		require.Len(t, ids, 1)
		g.onPut(func(call storemem.Call) storemem.Fault {
			if call.Segment == ids[0].ID {
				return storemem.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, nil)}
			}
			return storemem.Fault{}
		})
		first.append("s2")
		time.Sleep(time.Second)
		assert.Empty(t, g.events(), "order before speed")
		assert.EqualValues(t, 1, g.up.Stats().Stored)
		g.flush()
		all := g.of(first)
		require.Len(t, all, 1)
		assert.Equal(t, int64(1), all[0].BaseOffset)
		assert.Equal(t, []int64{0}, g.sequences())
	})
}

// L5: a publish whose outcome is unknown is repeated with the same events, unchanged: same sequence, same bytes. Readers
// drop duplicates by the segment id.
func TestL5UnknownOutcomeIsRepeatedUnchanged(t *testing.T) {
	for name, fault := range map[string]memlog.PublishFault{
		"not stored":       {Err: metadata.ErrUnknownOutcome},
		"stored, not told": {Err: metadata.ErrUnknownOutcome, Stored: 1},
		"stored late":      {Err: metadata.ErrUnknownOutcome, Stored: 1, Late: 100 * time.Millisecond},
		"answer too late":  {AckDelay: time.Hour},
		"strange error":    {Err: errors.New("strange"), Stored: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				defer g.close()
				g.publishFaults(func(call memlog.PublishCall) memlog.PublishFault {
					if call.Number == 0 {
						return fault
					}
					return memlog.PublishFault{}
				})
				p := g.lead(0)
				p.append("a")
				time.Sleep(15 * time.Millisecond)
				p.lead.Resign() // H3: what was sealed is repeated all the same
				g.flush()
				time.Sleep(time.Second)

				events := g.events()
				require.NotEmpty(t, events)
				for _, e := range events {
					assert.Equal(t, events[0], e)
					assert.Zero(t, e.Sequence)
				}
				require.Len(t, g.of(p), 1)
				assert.Equal(t, 1, g.driver.Calls("Put"), "the object is neither uploaded again nor deleted")
				assert.Zero(t, g.driver.Calls("Delete"))
			})
		})
	}
}

// R12 (c), L3: an event that was handed over with an unknown outcome and is given up keeps its sequence for ever: should
// it land late, the next one must not look like its repetition. Readers see a gap.
func TestR12UnsettledSequenceIsNeverReused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		g.publishFaults(func(memlog.PublishCall) memlog.PublishFault {
			return memlog.PublishFault{Err: metadata.ErrUnknownOutcome}
		})
		p := g.lead(0)
		p.append("a")
		start := time.Now()
		g.flush()
		given := seen(g, &g.given)
		require.Len(t, given, 1)
		assert.True(t, given[0].Stored)
		assert.Zero(t, given[0].Sequence)
		require.ErrorIs(t, given[0].Err, metadata.ErrUnknownOutcome)
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(time.Second), "after GiveUpAfter")

		g.publishFaults(nil)
		p.append("b")
		g.flush()
		assert.Equal(t, []int64{1}, g.sequences())
		// L5: the object stays; it ages like any other
		assert.Zero(t, g.driver.Calls("Delete"))
		assert.Len(t, g.driver.Store().Keys(), 2)
	})
}

// R12 (c), L3: a sequence whose event was definitely rejected is given back, so that readers see no gap for it, and the
// events behind it in the same call follow densely.
func TestR12RejectedSequenceIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		// given three segments stored at once, the first of which the log can never take
		g.onPut(slowPut(100 * time.Millisecond))
		g.publishFaults(func(call memlog.PublishCall) memlog.PublishFault {
			if call.Number == 0 {
				return memlog.PublishFault{Err: metadata.ErrInvalid}
			}
			return memlog.PublishFault{}
		})
		p := g.lead(0)
		for i := range 3 {
			p.append(fmt.Sprint(i))
			time.Sleep(15 * time.Millisecond)
		}
		g.flush()

		given := seen(g, &g.given)
		require.Len(t, given, 1)
		require.ErrorIs(t, given[0].Err, metadata.ErrInvalid)
		assert.Equal(t, int64(-1), given[0].Sequence)
		assert.Equal(t, []int64{0, 1}, g.sequences())
		assert.EqualValues(t, 2, g.up.Stats().NextSequence)
	})
}

// L5, L3: a prefix that is stored is not published again; an unknown rest goes out under the sequences it had.
func TestL5StoredPrefixIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		g.onPut(slowPut(100 * time.Millisecond))
		g.publishFaults(func(call memlog.PublishCall) memlog.PublishFault {
			if call.Number == 0 {
				return memlog.PublishFault{Err: metadata.ErrUnknownOutcome, Stored: 2, Told: 1}
			}
			return memlog.PublishFault{}
		})
		p := g.lead(0)
		for i := range 3 {
			p.append(fmt.Sprint(i))
			time.Sleep(15 * time.Millisecond)
		}
		g.flush()
		assert.Equal(t, []int64{0, 1, 1, 2}, g.sequences())
		p.requireWhole()
	})
}

// L3: with the metadata log away for long, segments are given up one by one in their order, and the log's first word
// afterwards is a gap, not a repetition of a sequence.
func TestL3MetadataLogAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		g.publishFaults(func(memlog.PublishCall) memlog.PublishFault {
			return memlog.PublishFault{Wait: make(chan struct{})} // no answer at all
		})
		p := g.lead(0)
		for range 20 {
			p.append("x")
			time.Sleep(time.Second)
		}
		assert.NotEmpty(t, seen(g, &g.given))
		assert.Empty(t, g.events())
		g.publishFaults(nil)
		p.append("tail")
		g.flush()
		for i, s := range g.sequences() {
			if i > 0 {
				assert.Equal(t, g.sequences()[i-1]+1, s)
			} else {
				assert.Positive(t, s)
			}
		}
		all := g.of(p)
		end, _ := p.log.End()
		assert.Equal(t, end-1, all[len(all)-1].LastOffset)
		for _, lost := range seen(g, &g.given) {
			assert.True(t, lost.Stored)
			assert.GreaterOrEqual(t, lost.Sequence, int64(0))
			assert.Less(t, lost.Sequence, g.sequences()[0])
		}
	})
}

// R12 (c), M1: a metadata log that has been closed has certainly stored nothing: the segments are given up in time, and no
// sequence is lost with them.
func TestR12ClosedMetadataLogLosesNoSequence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		require.NoError(t, g.meta.Close())
		start := time.Now()
		for range 3 {
			p.append("x")
			time.Sleep(15 * time.Millisecond)
		}
		g.flush()
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(time.Second))
		given := seen(g, &g.given)
		require.Len(t, given, 3)
		for _, lost := range given {
			require.ErrorIs(t, lost.Err, metadata.ErrClosed)
			assert.Equal(t, int64(-1), lost.Sequence)
		}
		assert.Zero(t, g.up.Stats().NextSequence)
	})
}

// N2, L3: an event that comes after half the retention may name an object that is being deleted, so it does not come.
func TestL3NothingIsPublishedAfterHalfTheRetention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) {
			c.GiveUpAfter, c.StuckAfter, c.Retention = 4*time.Second, 20*time.Second, 10*time.Second
		})
		defer g.close()
		// given a segment that is stored and waits behind one whose upload hangs beyond its deadline
		g.onPut(func(call storemem.Call) storemem.Fault { return storemem.Fault{Hang: call.Number == 1} })
		p := g.lead(0)
		p.append("hangs")
		time.Sleep(15 * time.Millisecond)
		p.append("waits")
		time.Sleep(22 * time.Second)
		p.append("young")
		g.flush()

		assert.Equal(t, []int64{0}, g.sequences())
		given := seen(g, &g.given)
		require.Len(t, given, 2)
		require.ErrorIs(t, given[0].Err, leader.ErrExpired)
		assert.True(t, given[0].Stored)
		assert.Equal(t, int64(-1), given[0].Sequence)
		require.ErrorIs(t, given[1].Err, leader.ErrStuck)
		g.driver.Release()
	})
}

// L6: a writer that meets a newer epoch of its own broker stops for good, and the broker is told. A reader is not fenced
// by it, and the existence of an object fences nothing.
func TestL6FencedIsTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p := g.lead(0)
		p.append("a")
		g.flush()
		require.NoError(t, g.up.Err())

		// given a newer epoch of the same broker, which publishes
		meta, err := g.topic.Open(memlog.Options{Broker: broker, BrokerEpoch: brokerEpoch + 1})
		require.NoError(t, err)
		newer, err := leader.New(leader.Config{
			Storage: g.manager, Metadata: meta, Cluster: cluster, Broker: broker, BrokerEpoch: brokerEpoch + 1,
		})
		require.NoError(t, err)
		lead, err := newer.Lead(partitionOf(1), 1, 0, p.log)
		require.NoError(t, err)
		require.NoError(t, newer.Flush(g.ctx))

		// when the old one goes on, its Notifies and Flush in the middle of it
		p.append("b")
		err = g.up.Flush(g.ctx)

		// then it has ended, and says so everywhere
		require.ErrorIs(t, err, metadata.ErrFenced)
		require.ErrorIs(t, g.up.Err(), metadata.ErrFenced)
		require.ErrorIs(t, g.up.Flush(g.ctx), metadata.ErrFenced)
		_, err = g.up.Lead(partitionOf(5), 1, 0, p.log)
		require.ErrorIs(t, err, metadata.ErrFenced)
		time.Sleep(time.Second)
		require.Len(t, seen(g, &g.fenced), 1)
		given := seen(g, &g.given)
		require.Len(t, given, 1)
		require.ErrorIs(t, given[0].Err, metadata.ErrFenced)
		puts := g.driver.Calls("Put")
		p.append("c")
		p.lead.Resign()
		time.Sleep(time.Second)
		assert.Equal(t, puts, g.driver.Calls("Put"), "nothing more is uploaded")
		assert.Zero(t, g.up.Stats().InFlight)

		// and the new one does not mind
		lead.Notify()
		require.NoError(t, newer.Close(context.Background()))
		require.NoError(t, meta.Close())
	})
}
