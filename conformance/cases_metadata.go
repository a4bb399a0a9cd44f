package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage/segment"
)

// metadataCases are the cases of RunMetadata, group Q: a metadata log carries every event to every reader, once, in
// order, and says so where it cannot.
var metadataCases = []testCase{
	{
		id: "Q1", priority: 1, rule: "M1",
		title: "an acknowledged event is delivered, whole, one by one and in batches",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			sequence := int64(0)
			for _, n := range []int{1, 1, 2, 5, 1, 20} {
				events := c.newEvents(1, 0, sequence, n)
				sequence += int64(n)
				c.publish(writer, events...)
				c.wantEvents(sub, events...)
			}
		},
	},
	{
		id: "Q2", priority: 1, rule: "M5",
		title: "a replay gives what live readers have seen, every time the same",
		costs: "A follower that restarts finds less in the store than one that does not.",
		run: func(c *T) {
			writer := c.log(1, 0)
			live := c.subscribe(c.log(2, 0), theEnd)
			from := theBeginning()
			events := c.newEvents(1, 0, 0, 30)
			for len(events) > 0 {
				n := min(len(events), 7)
				c.publish(writer, events[:n]...)
				events = events[n:]
			}
			seen, err := c.streams(live, 30)
			require.NoError(c, err, "the live reader")
			for _, reader := range []metadata.Log{c.log(2, 0), c.log(3, 0), writer} {
				replayed, err := c.streams(c.subscribe(reader, from), 30)
				require.NoError(c, err, "a replay")
				require.Empty(c, streamsDiffer(seen, replayed), "a replay against the live reader")
			}
		},
	},
	{
		id: "Q4", priority: 1, rule: "M3",
		title: "an event published again, unchanged, is delivered once",
		costs: "A leader settles a lost answer by publishing again: a reader that counts both sees a gap where there is none.",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			from := theBeginning()
			events := c.newEvents(1, 0, 0, 6)
			c.publish(writer, events[0], events[1])
			c.publish(writer, events[0], events[1], events[2])
			c.publish(writer, events[2])
			c.publish(writer, events[3:]...)
			c.wantEvents(sub, events...)
			c.wantEvents(c.subscribe(reader, from), events...)
		},
	},
	{
		id: "Q5", priority: 1, rule: "M3",
		title: "a jump in the sequence is a gap that names what is missing; what comes late is delivered",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			events := c.newEvents(1, 0, 0, 9)
			c.publish(writer, events[0], events[1])
			c.publish(writer, events[4]) // 2 and 3 were given up
			c.publish(writer, events[5])
			c.publish(writer, events[3]) // this one was not
			c.publish(writer, events[6])
			c.wantEvents(sub, events[0], events[1])
			gap := c.wantGap(sub, 1, "sequences 2 and 3 are missing")
			require.Equal(c, metadata.Gap{BrokerID: 1, BrokerEpoch: 0, From: 2, To: 4, Reason: metadata.GapMissing}, gap)
			c.wantEvents(sub, events[4], events[5], events[3], events[6])
		},
	},
	{
		id: "Q7", priority: 1, rule: "M4", needs: needDamage,
		title: "an event that cannot be read is a gap, and those after it are delivered",
		run: func(c *T) {
			reader := c.log(2, 0)
			for i, reason := range []metadata.GapReason{metadata.GapCorrupt, metadata.GapUnknownVersion} {
				broker := int32(10 + i)
				writer := c.log(broker, 0)
				from := theBeginning()
				events := c.newEvents(broker, 0, 0, 4)
				other := c.newEvent(2, 0, int64(i))
				c.publish(writer, events[:2]...)
				if !c.metadata.cfg.Damage(c, c.metadata.name, broker, reason) {
					c.Logf("the configuration cannot make an event of reason %q", reason)
					continue
				}
				c.publish(writer, events[2:]...)
				c.publish(reader, other)

				// A reader from the beginning comes to the first event, a gap, and the two after it; another broker's
				// events are not disturbed.
				sub := c.subscribe(reader, from)
				var got []*metadata.Event
				var gaps []metadata.Gap
				for sawOther := false; !sawOther || len(got) < 3; {
					item := c.next(sub)
					switch {
					case item.Gap != nil && item.Gap.BrokerID == broker:
						gaps = append(gaps, *item.Gap)
						require.Len(c, gaps, 1, "gaps for one unreadable event: %v", gaps)
					case item.Event != nil && item.Event.Segment.ID.BrokerID == broker:
						require.NotEqual(c, events[1].Segment.ID, item.Event.Segment.ID, "the unreadable event was delivered")
						got = append(got, item.Event.Clone())
					case item.Event != nil && item.Event.Segment.ID == other.Segment.ID:
						sawOther = true
					}
				}
				want := map[int32][]*metadata.Event{broker: {events[0], events[2], events[3]}}
				require.Empty(c, streamsDiffer(want, map[int32][]*metadata.Event{broker: got}), "events beside an unreadable one")
				require.Len(c, gaps, 1, "gaps for one unreadable event")
				require.Equal(c, reason, gaps[0].Reason, "the reason of %v", gaps[0])
			}
		},
	},
	{
		id: "Q8", priority: 1, rule: "M3",
		title: "an event whose publication begins after Subscribe has returned is delivered, one from before it is not",
		costs: "A follower makes its first fetch after it has subscribed: an event that falls between is never looked for.",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			for round := range 25 {
				before, after := c.newEvent(1, 0, int64(2*round)), c.newEvent(1, 0, int64(2*round+1))
				c.publish(writer, before)
				sub := c.subscribe(reader, theEnd)
				c.publish(writer, after)
				c.wantEvents(sub, after)
				require.NoError(c, sub.Close())
			}
		},
	},
	{
		id: "Q9", priority: 1, rule: "M3",
		title: "a topic that is written to without pause keeps no subscriber from starting",
		run: func(c *T) {
			busy, reader := c.log(1, 0), c.log(2, 0)
			sequence := int64(0) // of the busy broker's next event; its goroutine's while it runs
			for round := range int64(5) {
				ctx, stop := context.WithCancel(c.Context())
				started, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					for first := true; ctx.Err() == nil; first = false {
						if _, err := busy.Publish(c.Context(), c.newEvent(1, 0, sequence)); err != nil {
							ended <- err
							return
						}
						if sequence++; first {
							close(started)
						}
					}
					ended <- nil
				}()
				var sub metadata.Subscription
				var err error
				own := c.newEvent(2, 0, round)
				ok := c.waitFor(started, "the first of many events is published") &&
					c.returns("Subscribe on a busy topic returns", func() {
						sub, err = reader.Subscribe(c.Context(), metadata.Position{})
					}) && c.publishPromptly(reader, own)
				stop()
				if !ok {
					return
				}
				require.NoError(c, <-ended, "Publish on a busy topic")
				require.NoError(c, err, "Subscribe on a busy topic")
				for {
					item := c.next(sub)
					require.Nil(c, item.Gap, "nothing is missing")
					if item.Event.Segment.ID == own.Segment.ID {
						break
					}
				}
				require.NoError(c, sub.Close())
			}
		},
	},
	{
		id: "Q11", priority: 1, rule: "M1",
		title: "cancelling one publication fails no other, of the same broker or of another",
		run: func(c *T) {
			one, two := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(c.log(3, 0), theEnd)
			cancelled, cancel := context.WithCancel(c.Context())
			cancel()
			events := c.newEvents(1, 0, 0, 3)
			other := c.newEvent(2, 0, 0)
			c.publish(one, events[0])
			_, err := one.Publish(cancelled, events[1])
			c.wantKind(err, context.Canceled, "Publish with a cancelled context")
			c.publish(two, other)
			c.publish(one, events[1], events[2]) // the same again, unchanged, and the next
			got, err := c.streams(sub, 4)
			require.NoError(c, err)
			require.Empty(c, streamsDiffer(map[int32][]*metadata.Event{1: events, 2: {other}}, got))
		},
	},
	{
		id: "Q12", priority: 1, rule: "M1", needs: needUnknown,
		title: "a publication whose outcome is unknown, published again unchanged, is one event for readers",
		run: func(c *T) {
			for i, stored := range []bool{true, false} {
				broker := int32(10 + i)
				log := c.use(c.metadata.cfg.Unknown(c, c.metadata.name, broker, 0, stored))
				sub := c.subscribe(c.log(3, 0), theEnd)
				from := theBeginning()
				events := c.newEvents(broker, 0, 0, 3)
				n, err := log.Publish(c.Context(), events[:2]...)
				c.wantKind(err, metadata.ErrUnknownOutcome, "Publish whose outcome is unknown")
				require.Less(c, n, 2, "events stored for certain, though the outcome is unknown")
				if errors.Is(err, metadata.ErrFenced) || errors.Is(err, metadata.ErrInvalid) {
					c.Errorf("an unknown outcome is reported as a rejection: %v", err)
				}
				c.publish(log, events[n:]...)
				c.wantEvents(sub, events...)
				replay := c.subscribe(c.log(3, 0), from)
				got, err := c.streams(replay, 3*(i+1))
				require.NoError(c, err)
				require.Empty(c, streamsDiffer(map[int32][]*metadata.Event{broker: events}, map[int32][]*metadata.Event{broker: got[broker]}))
			}
		},
	},
	{
		id: "Q13", priority: 1, rule: "M1",
		title: "a writer of an older epoch of its broker is fenced (L6); readers see the new epoch begin at 0",
		costs: "A broker that was replaced and does not know it goes on publishing beside its successor.",
		run: func(c *T) {
			older, newer, other := c.log(1, 4), c.log(1, 7), c.log(2, 0)
			sub := c.subscribe(c.log(3, 0), theEnd)
			first, second := c.newEvents(1, 4, 0, 2), c.newEvents(1, 7, 0, 2)
			c.publish(older, first...)
			c.publish(newer, second[0])
			for range 3 { // terminal
				stored, err := older.Publish(c.Context(), c.newEvent(1, 4, 2))
				c.wantKind(err, metadata.ErrFenced, "Publish of an older epoch after a newer one has published")
				require.Zero(c, stored, "events of a fenced writer that are stored")
			}
			foreign := c.newEvent(2, 0, 0)
			c.publish(other, foreign) // another broker with a lower epoch is not concerned
			c.publish(newer, second[1])
			got, err := c.streams(sub, 5)
			require.NoError(c, err)
			require.Empty(c, streamsDiffer(map[int32][]*metadata.Event{1: {first[0], first[1], second[0], second[1]}, 2: {foreign}}, got))

			// An epoch that does not begin at 0 has lost its beginning.
			newest := c.log(1, 9)
			late := c.newEvent(1, 9, 3)
			c.publish(newest, late)
			gap := c.wantGap(sub, 1, "an epoch that begins at 3")
			require.Equal(c, metadata.Gap{BrokerID: 1, BrokerEpoch: 9, From: 0, To: 3, Reason: metadata.GapMissing}, gap)
			c.wantEvents(sub, late)
		},
	},
	{
		id: "Q21", priority: 1, rule: "M5",
		title: "several subscribers see the same events in the same order of each broker, while brokers publish at once",
		run: func(c *T) {
			const brokers, each = 4, 40
			from := theBeginning()
			subs := []metadata.Subscription{c.subscribe(c.log(1, 0), theEnd), c.subscribe(c.log(9, 0), theEnd), c.subscribe(c.log(9, 0), theEnd)}
			want := make(map[int32][]*metadata.Event)
			logs := make([]metadata.Log, brokers)
			for i := range logs {
				broker := int32(i + 1)
				logs[i] = c.log(broker, 0)
				want[broker] = c.newEvents(broker, 0, 0, each)
			}
			var errs recordedErrors
			got := make([]map[int32][]*metadata.Event, len(subs))
			c.together(brokers+len(subs), func(i int) {
				if i >= brokers {
					var err error
					got[i-brokers], err = c.streams(subs[i-brokers], brokers*each)
					errs.add(err)
					return
				}
				for events := want[int32(i+1)]; len(events) > 0; {
					n := min(len(events), 1+i)
					stored, err := logs[i].Publish(c.Context(), events[:n]...)
					if err == nil && stored != n {
						err = fmt.Errorf("%d of %d events stored and no error", stored, n)
					}
					if err != nil {
						errs.add(err)
						return
					}
					events = events[n:]
				}
			})
			require.Empty(c, errs.errs)
			replayed, err := c.streams(c.subscribe(c.log(9, 0), from), brokers*each)
			require.NoError(c, err, "a replay")
			for i, streams := range append(got, replayed) {
				require.Empty(c, streamsDiffer(want, streams), "reader %d", i)
			}
		},
	},
	{
		id: "Q22", priority: 1, rule: "M1",
		title: "closing a subscription or its log ends Next with ErrClosed, and nothing of the other handles",
		costs: "A broker that shuts down waits for an event that does not come.",
		run: func(c *T) {
			writer := c.log(1, 0)
			bystander := c.subscribe(c.log(3, 0), theEnd)
			for _, what := range []string{"subscription", "log"} {
				log := c.log(2, 0)
				sub, other := c.subscribe(log, theEnd), c.subscribe(log, theEnd)
				done := make(chan error, 1)
				waits := make(chan struct{})
				go func() {
					close(waits)
					_, err := sub.Next(c.Context())
					done <- err
				}()
				<-waits
				if what == "log" {
					require.NoError(c, log.Close())
				} else {
					require.NoError(c, sub.Close())
				}
				select {
				case err := <-done:
					c.wantKind(err, metadata.ErrClosed, "Next whose "+what+" was closed")
				case <-time.After(c.prompt):
					c.Fatalf("Next has not returned %v after its %s was closed", c.prompt, what)
				}
				_, err := sub.Next(c.Context())
				c.wantKind(err, metadata.ErrClosed, "Next after its "+what+" was closed")
				if what == "log" {
					_, err := other.Next(c.Context())
					c.wantKind(err, metadata.ErrClosed, "Next of another subscription after its log was closed")
					continue
				}
				event := c.newEvent(1, 0, 0)
				c.publish(writer, event)
				c.wantEvents(other, event)
			}
			event := c.newEvent(1, 0, 1)
			c.publish(writer, event)
			require.Equal(c, int64(0), c.next(bystander).Event.Sequence)
			c.wantEvents(bystander, event)
		},
	},
	{
		id: "Q23", priority: 1, rule: "M1",
		title: "a cancelled or expired context ends Publish, Subscribe and Next with the caller's error; a subscription stays usable",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			cancelled, cancel := context.WithCancel(c.Context())
			cancel()
			expired, cancel := context.WithDeadline(c.Context(), time.Now().Add(-time.Second))
			defer cancel()
			for want, ctx := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: expired} {
				_, err := sub.Next(ctx)
				c.wantContextError(err, want, "Next")
				_, err = reader.Subscribe(ctx, metadata.Position{})
				c.wantContextError(err, want, "Subscribe")
				stored, err := writer.Publish(ctx, c.newEvent(1, 0, 0))
				c.wantContextError(err, want, "Publish")
				require.Zero(c, stored, "events of a publication whose context had ended before")
			}
			// Under way, too.
			ctx, cancelNext := context.WithCancel(c.Context())
			done := make(chan error, 1)
			go func() {
				_, err := sub.Next(ctx)
				done <- err
			}()
			cancelNext()
			select {
			case err := <-done:
				c.wantContextError(err, context.Canceled, "Next cancelled under way")
			case <-time.After(c.prompt):
				c.Fatalf("Next has not returned %v after it was cancelled", c.prompt)
			}
			event := c.newEvent(1, 0, 5)
			c.publish(writer, event)
			c.wantNextOf(sub, event)
		},
	},
	{
		id: "Q24", priority: 1, rule: "M1",
		title: "Publish keeps no event, and an event cloned before the next call of Next stays what it was",
		costs: "Events are reused by both ends for speed: one that is kept shows the slices of another segment.",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			var want, got []*metadata.Event
			reusedEvent := c.newEvent(1, 0, 0)
			for sequence := range int64(10) {
				fresh := c.newEventOf(1, 0, sequence, 1+int(sequence)%3)
				want = append(want, fresh.Clone())
				*reusedEvent = *fresh
				c.publish(writer, reusedEvent)
				// What the writer does with its event now is its own business.
				reusedEvent.Sequence = -5
				reusedEvent.Segment.Topics[0].Slices[0].BaseOffset = -1
				reusedEvent.Segment.Topics[0].Name = "reused"
			}
			for range want {
				item := c.next(sub)
				require.NotNil(c, item.Event, "got a %v", item.Gap)
				got = append(got, item.Event.Clone())
			}
			require.Empty(c, streamsDiffer(map[int32][]*metadata.Event{1: want}, map[int32][]*metadata.Event{1: got}))
		},
	},
	{
		id: "Q25", priority: 1, rule: "M2",
		title: "twenty brokers publish at once, each in its own order",
		run: func(c *T) {
			const brokers, each = 20, 10
			sub := c.subscribe(c.log(100, 0), theEnd)
			want := make(map[int32][]*metadata.Event)
			logs := make([]metadata.Log, brokers)
			for i := range logs {
				logs[i] = c.log(int32(i), int64(i))
				want[int32(i)] = c.newEvents(int32(i), int64(i), 0, each)
			}
			var errs recordedErrors
			c.together(brokers, func(i int) {
				for _, event := range want[int32(i)] {
					if stored, err := logs[i].Publish(c.Context(), event); err != nil || stored != 1 {
						errs.add(fmt.Errorf("broker %d: %d events stored: %w", i, stored, err))
						return
					}
				}
			})
			require.Empty(c, errs.errs)
			got, err := c.streams(sub, brokers*each)
			require.NoError(c, err)
			require.Empty(c, streamsDiffer(want, got))
		},
	},
	{
		id: "Q26", priority: 1, rule: "M2",
		title: "an event of thousands of slices, as large as a leader makes them, arrives whole",
		costs: "The busiest leaders, whose segments hold the most partitions, are the ones whose events are lost.",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			large := c.newEventOf(1, 0, 0, 4096)
			small := c.newEvent(1, 0, 1)
			c.publish(writer, large)
			c.publish(writer, small, c.newEventOf(1, 0, 2, 4096))
			c.wantEvents(sub, large, small)
			require.NotNil(c, c.next(sub).Event)
		},
	},
	{
		id: "Q27", priority: 1, rule: "M1",
		title: "an event that can never be stored is ErrInvalid, nothing of it is stored, and the log goes on",
		costs: "The leader publishes it again and again, and every later segment waits behind it.",
		run: func(c *T) {
			writer, reader := c.log(1, 3), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			for name, spoil := range map[string]func(e *metadata.Event){
				"of another broker":            func(e *metadata.Event) { e.Segment.ID.BrokerID = 2 },
				"of another broker epoch":      func(e *metadata.Event) { e.Segment.ID.BrokerEpoch = 4 },
				"with a negative sequence":     func(e *metadata.Event) { e.Sequence = -1 },
				"with a sequence at the limit": func(e *metadata.Event) { e.Sequence = math.MaxInt64 },
				"with an impossible size":      func(e *metadata.Event) { e.ObjectSize = 3 },
				"without a cluster":            func(e *metadata.Event) { e.Segment.Cluster = "" },
				"without topics":               func(e *metadata.Event) { e.Segment.Topics = nil },
				"with an unsorted partition": func(e *metadata.Event) {
					e.Segment.Topics[0].Slices = append(e.Segment.Topics[0].Slices, e.Segment.Topics[0].Slices[0])
				},
				"with a zero topic id":    func(e *metadata.Event) { e.Segment.Topics[0].ID = uuid.Nil },
				"with a zero segment id":  func(e *metadata.Event) { e.Segment.ID.UUID = uuid.Nil },
				"with an empty slice":     func(e *metadata.Event) { e.Segment.Topics[0].Slices[0].Length = 0 },
				"too large for any topic": func(e *metadata.Event) { enlarge(e) },
			} {
				event := c.newEvent(1, 3, 0)
				spoil(event)
				stored, err := writer.Publish(c.Context(), event)
				c.wantKind(err, metadata.ErrInvalid, "an event "+name)
				require.Zero(c, stored, "an event %s", name)
			}
			stored, err := writer.Publish(c.Context(), nil)
			c.wantKind(err, metadata.ErrInvalid, "a nil event")
			require.Zero(c, stored)
			good := c.newEvent(1, 3, 0)
			c.publish(writer, good)
			c.wantEvents(sub, good)
		},
	},
	{
		id: "Q28", priority: 1, rule: "M1",
		title: "what Publish says is stored is a prefix: the valid events before an invalid one, and no events are nil",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			sub := c.subscribe(reader, theEnd)
			stored, err := writer.Publish(c.Context())
			require.NoError(c, err, "Publish of no events")
			require.Zero(c, stored)
			events := c.newEvents(1, 0, 0, 4)
			bad := c.newEvent(1, 0, 2)
			bad.ObjectSize = 1
			stored, err = writer.Publish(c.Context(), events[0], events[1], bad, events[3])
			c.wantKind(err, metadata.ErrInvalid, "Publish with an invalid event at place 2")
			require.Equal(c, 2, stored, "events stored before the invalid one")
			c.publish(writer, events[2:]...)
			c.wantEvents(sub, events...)
		},
	},
	{
		id: "Q29", priority: 1, rule: "M1",
		title: "Close may be called often, from several goroutines; later calls give ErrClosed, and what is stored stays",
		run: func(c *T) {
			from := theBeginning()
			log := c.log(1, 0)
			sub := c.subscribe(log, theEnd)
			event := c.newEvent(1, 0, 0)
			c.publish(log, event)
			errs := make([]error, 6)
			c.together(len(errs), func(i int) {
				if i%2 == 0 {
					errs[i] = log.Close()
				} else {
					errs[i] = sub.Close()
				}
			})
			for _, err := range errs {
				require.NoError(c, err, "one of six calls of Close at once")
			}
			stored, err := log.Publish(c.Context(), c.newEvent(1, 0, 1))
			c.wantKind(err, metadata.ErrClosed, "Publish after Close")
			require.Zero(c, stored)
			_, err = log.Subscribe(c.Context(), metadata.Position{})
			c.wantKind(err, metadata.ErrClosed, "Subscribe after Close")
			_, err = sub.Next(c.Context())
			c.wantKind(err, metadata.ErrClosed, "Next after Close")
			c.wantEvents(c.subscribe(c.log(2, 0), from), event)
			// The broker comes back, with its next epoch.
			again := c.log(1, 1)
			next := c.newEvent(1, 1, 0)
			c.publish(again, next)
			c.wantEvents(c.subscribe(c.log(2, 0), from), event, next)
		},
	},
	{
		id: "Q30", priority: 1, rule: "M3",
		title: "a position in the past delivers everything stored since then",
		costs: "A follower that asks for the last minutes misses segments that it was promised.",
		run: func(c *T) {
			writer, reader := c.log(1, 0), c.log(2, 0)
			events := c.newEvents(1, 0, 0, 12)
			var stamps []time.Time
			for _, event := range events {
				stamps = append(stamps, time.Now())
				c.publish(writer, event)
			}
			for _, at := range []int{0, 5, 11} {
				// By the log's own reckoning it may begin somewhat earlier, never later.
				sub := c.subscribe(reader, stamps[at].Add(-time.Millisecond))
				item := c.next(sub)
				require.NotNil(c, item.Event, "got a %v", item.Gap)
				first := item.Event.Sequence
				require.LessOrEqual(c, first, int64(at), "the first event of a subscription from the time just before event %d", at)
				c.wantEvents(sub, events[first+1:]...)
			}
		},
	},
	{
		id: "Q31", priority: 1, rule: "M1",
		title: "Publish waits for no reader: a subscription that nobody reads holds nobody up, and has everything later",
		costs: "One follower that hangs stops the replication of a leader to all others.",
		run: func(c *T) {
			writer := c.log(1, 0)
			idle := c.subscribe(c.log(2, 0), theEnd)
			events := c.newEvents(1, 0, 0, 300)
			for i := 0; i < len(events); i += 10 {
				if !c.publishPromptly(writer, events[i:i+10]...) {
					return
				}
			}
			c.wantEvents(idle, events...)
		},
	},
	{
		id: "Q32", priority: 1, rule: "M1", needs: needMetadataInvalid,
		title: "a wrong configuration is refused with an error that names the field",
		run: func(c *T) {
			fields := make([]string, 0, len(c.metadata.cfg.Invalid))
			for field := range c.metadata.cfg.Invalid {
				fields = append(fields, field)
			}
			sort.Strings(fields)
			for _, field := range fields {
				err := c.metadata.cfg.Invalid[field]()
				switch {
				case err == nil:
					c.Errorf("a configuration with a wrong %s is accepted", field)
				case !strings.Contains(err.Error(), field):
					c.Errorf("the error for a wrong %s does not name the field: %v", field, err)
				}
			}
		},
	},
}

// wantNextOf checks that the event comes next, after a gap before it if need be.
func (c *T) wantNextOf(sub metadata.Subscription, event *metadata.Event) {
	item := c.next(sub)
	if item.Gap != nil {
		item = c.next(sub)
	}
	require.NotNil(c, item.Event)
	require.Empty(c, eventDifference(event, item.Event))
}

// enlarge adds topics to an event until it takes more than metadata.MaxEventBytes.
func enlarge(e *metadata.Event) {
	slice := e.Segment.Topics[0].Slices[0]
	for i := range 4500 {
		one := segment.Topic{ID: uuid.UUID{0: 8, 1: byte(i >> 8), 2: byte(i), 6: 0x40, 8: 0x80}, Name: strings.Repeat("n", 240)}
		one.Slices = []segment.Slice{slice}
		e.Segment.Topics = append(e.Segment.Topics, one)
	}
	e.ObjectSize = segment.HeaderLength + e.Segment.BodyLength() + int64(e.Segment.EncodedLen()) + segment.TrailerLength
}
