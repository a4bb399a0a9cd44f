package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// topic is the metadata log as one case sees it: a topic of its own.
type topic struct {
	cfg  MetadataConfig
	name string

	mu   sync.Mutex
	made int64 // events
}

func newTopic(cfg MetadataConfig, c *T) *topic {
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	return &topic{cfg: cfg, name: strings.ToLower(c.id) + "-" + hex.EncodeToString(suffix[:])}
}

// log returns a new handle of a broker on the case's topic. It is closed when the case ends.
func (c *T) log(broker int32, epoch int64) metadata.Log {
	return c.use(c.metadata.cfg.Open(c, c.metadata.name, broker, epoch))
}

// use closes a handle when the case ends.
func (c *T) use(log metadata.Log) metadata.Log {
	require.NotNil(c, log, "the configuration returned no log")
	c.Cleanup(func() {
		if err := log.Close(); err != nil {
			c.Errorf("closing a handle: %v", err)
		}
	})
	return log
}

// subscribe begins to read at the end, or at the time given.
func (c *T) subscribe(log metadata.Log, from time.Time) metadata.Subscription {
	sub, err := log.Subscribe(c.Context(), metadata.Position{Time: from})
	require.NoError(c, err, "Subscribe")
	require.NotNil(c, sub, "Subscribe returned neither a subscription nor an error")
	c.Cleanup(func() {
		if err := sub.Close(); err != nil {
			c.Errorf("closing a subscription: %v", err)
		}
	})
	return sub
}

// theEnd is the position of a subscription that wants to see only what comes.
var theEnd time.Time

// theBeginning is one before everything that a case has published.
func theBeginning() time.Time { return time.Now().Add(-time.Hour) }

// newEvent returns the event of a new segment with one slice.
func (c *T) newEvent(broker int32, epoch, sequence int64) *metadata.Event {
	return c.newEventOf(broker, epoch, sequence, 1)
}

// newEventOf returns the event of a new segment with the number of slices given.
func (c *T) newEventOf(broker int32, epoch, sequence int64, slices int) *metadata.Event {
	id, err := walstorage.NewSegmentID(broker, epoch, time.Now(), rand.Reader)
	require.NoError(c, err)
	c.metadata.mu.Lock()
	c.metadata.made++
	base := 100 * c.metadata.made
	c.metadata.mu.Unlock()
	e := &metadata.Event{Sequence: sequence, Segment: segment.Metadata{Cluster: "conformance", ID: id, Created: id.Created()}}
	one := segment.Topic{ID: uuid.UUID{0: 7, 6: 0x40, 8: 0x80}, Name: "orders"}
	for i := range slices {
		one.Slices = append(one.Slices, segment.Slice{
			Partition: int32(i), LeaderEpoch: 3, EpochStart: base / 2, BaseOffset: base, LastOffset: base + 41,
			Length: 1000 + int64(i), CRC32C: uint32(base), MaxTimestamp: id.Created().UnixMilli() - 12,
		})
	}
	e.Segment.Topics = []segment.Topic{one}
	e.ObjectSize = segment.HeaderLength + e.Segment.BodyLength() + int64(e.Segment.EncodedLen()) + segment.TrailerLength
	return e
}

// newEvents returns n events with the sequences from first on.
func (c *T) newEvents(broker int32, epoch, first int64, n int) []*metadata.Event {
	events := make([]*metadata.Event, n)
	for i := range events {
		events[i] = c.newEvent(broker, epoch, first+int64(i))
	}
	return events
}

// publish publishes the events and fails the case unless all are stored.
func (c *T) publish(log metadata.Log, events ...*metadata.Event) {
	stored, err := log.Publish(c.Context(), events...)
	require.NoError(c, err, "Publish of %d events", len(events))
	require.Equal(c, len(events), stored, "events stored, as Publish tells without an error")
}

// publishPromptly is publish where it might wait for a reader, and must not. It tells whether Publish has returned.
func (c *T) publishPromptly(log metadata.Log, events ...*metadata.Event) bool {
	var stored int
	var err error
	if !c.returns("Publish, whatever subscriptions there are, returns", func() {
		stored, err = log.Publish(c.Context(), events...)
	}) {
		return false
	}
	require.NoError(c, err, "Publish of %d events", len(events))
	require.Equal(c, len(events), stored, "events stored, as Publish tells without an error")
	return true
}

// next returns the next item of a subscription, which must hold exactly one thing.
func (c *T) next(sub metadata.Subscription) metadata.Item {
	item, err := c.nextItem(sub)
	require.NoError(c, err)
	return item
}

// nextItem is next for goroutines, which must not fail the case themselves.
func (c *T) nextItem(sub metadata.Subscription) (metadata.Item, error) {
	ctx, cancel := context.WithTimeout(c.Context(), c.delivery)
	defer cancel()
	item, err := sub.Next(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return item, fmt.Errorf("nothing has come within %v", c.delivery)
	case err != nil:
		return item, fmt.Errorf("waiting for the next item: %w", err)
	case (item.Event == nil) == (item.Gap == nil):
		return item, fmt.Errorf("an item holds event %v and gap %v, want exactly one", item.Event, item.Gap)
	}
	return item, nil
}

// wantEvents checks that the next items are exactly the events given.
func (c *T) wantEvents(sub metadata.Subscription, events ...*metadata.Event) {
	for i, want := range events {
		item := c.next(sub)
		if item.Gap != nil {
			c.Fatalf("event %d of %d: got a %v, want %s", i, len(events), *item.Gap, describe(want))
		}
		if difference := eventDifference(want, item.Event); difference != "" {
			c.Fatalf("event %d of %d: %s", i, len(events), difference)
		}
	}
}

// wantGap checks that the next item is a gap of the broker given, and returns it.
func (c *T) wantGap(sub metadata.Subscription, broker int32, situation string) metadata.Gap {
	item := c.next(sub)
	if item.Gap == nil {
		c.Fatalf("%s: got %s, want a gap", situation, describe(item.Event))
	}
	require.Equal(c, broker, item.Gap.BrokerID, "%s: the broker of the gap", situation)
	return *item.Gap
}

// describe names an event.
func describe(e *metadata.Event) string {
	if e == nil {
		return "no event"
	}
	return fmt.Sprintf("event %d of segment %s", e.Sequence, e.Segment.ID)
}

// eventDifference says how two events differ, "" if they do not.
func eventDifference(want, got *metadata.Event) string {
	if want.Segment.ID != got.Segment.ID || want.Sequence != got.Sequence {
		return fmt.Sprintf("got %s, want %s", describe(got), describe(want))
	}
	wantBytes, wantErr := want.AppendBinary(nil)
	gotBytes, gotErr := got.AppendBinary(nil)
	if wantErr != nil || gotErr != nil || !bytes.Equal(wantBytes, gotBytes) {
		return fmt.Sprintf("%s has changed on its way", describe(want))
	}
	return ""
}

// streams reads items until it has n events and returns them broker by broker, and every gap as an error.
func (c *T) streams(sub metadata.Subscription, n int) (map[int32][]*metadata.Event, error) {
	byBroker := make(map[int32][]*metadata.Event)
	for range n {
		item, err := c.nextItem(sub)
		if err != nil {
			return byBroker, err
		}
		if item.Gap != nil {
			return byBroker, fmt.Errorf("a %v, where nothing is missing", *item.Gap)
		}
		broker := item.Event.Segment.ID.BrokerID
		byBroker[broker] = append(byBroker[broker], item.Event.Clone())
	}
	return byBroker, nil
}

// streamsDiffer says how the streams of two readers differ, "" if they do not.
func streamsDiffer(want, got map[int32][]*metadata.Event) string {
	if len(want) != len(got) {
		return fmt.Sprintf("events of %d brokers instead of %d", len(got), len(want))
	}
	for broker, events := range want {
		if len(events) != len(got[broker]) {
			return fmt.Sprintf("broker %d: %d events instead of %d", broker, len(got[broker]), len(events))
		}
		for i, event := range events {
			if difference := eventDifference(event, got[broker][i]); difference != "" {
				return fmt.Sprintf("broker %d, event %d: %s", broker, i, difference)
			}
		}
	}
	return ""
}
