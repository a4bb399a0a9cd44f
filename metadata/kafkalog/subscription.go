package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
)

// Settings of the fetches. A fetch is answered as soon as a byte is committed, and otherwise when fetchWait is over: it has
// nothing to do with latency, and is Kafka's own default (fetch.max.wait.ms).
const (
	fetchWait           = 500 * time.Millisecond
	fetchBytes          = 8 << 20 // from one broker, so a subscription that nobody reads holds that much of each
	fetchPartitionBytes = 2 << 20
)

// subscription is one reader of the topic, with a client of its own. Only Close may be called beside Next.
type subscription struct {
	log       *Log
	cancel    context.CancelFunc
	closed    chan struct{}
	closeOnce sync.Once
	refresher sync.WaitGroup

	// mu is held while records are looked at, and never while Next waits (D1).
	mu         sync.Mutex
	client     *kgo.Client // another one once the topic has been created again
	topic      [16]byte
	partitions map[int32]*reading
	sequencer  metadata.Sequencer
	fetched    []kgo.FetchPartition // what has come and has not been looked at
	gaps       []metadata.Gap       // to be yielded before anything else
	event      *metadata.Event      // what Next has yielded; the next call may write over it
	waiting    bool                 // event has been decoded, and a gap was yielded before it
	// events holds one of each broker: the names in a broker's events are mostly those of its last one, so decoding into it
	// allocates nothing.
	events map[int32]*metadata.Event
	failed error              // to be returned by Next
	wake   context.CancelFunc // ends the wait of Next for records, to have it look at gaps; nil before the first wait
}

// reading is the place of a subscription in one partition.
type reading struct {
	next int64 // the offset expected
	// brokers holds who has been met here, each with how many losses it has been told of.
	brokers map[int32]int
	losses  int
	// cutFrom is where the log ended before it was cut, if a record has shown that before the client's error came; -1
	// otherwise.
	cutFrom int64
	// gone is below which offset the cluster has deleted what this subscription had not read, and that was told.
	gone int64
	// damaged says that what stands at next cannot be read, and that this has been told.
	damaged bool
}

func newReading(offset int64) *reading {
	return &reading{next: offset, cutFrom: -1, brokers: make(map[int32]int)}
}

// newSubscription fixes the position of each partition, and begins to read.
func newSubscription(ctx context.Context, l *Log, from metadata.Position) (*subscription, error) {
	s := &subscription{log: l, closed: make(chan struct{}), partitions: make(map[int32]*reading), events: make(map[int32]*metadata.Event)}
	var pause pauses
	var last error
	for {
		offsets, topic, err := begin(ctx, l, from)
		if err == nil {
			s.topic = topic
			return s, s.start(offsets)
		}
		last = telling(last, err)
		if !again(err) || pause.wait(ctx) != nil {
			return nil, last
		}
	}
}

// begin asks where each partition is to be read from.
func begin(ctx context.Context, l *Log, from metadata.Position) (offsets map[int32]position, topic [16]byte, err error) {
	detail, err := describe(ctx, l.client, l.cfg.Topic)
	if err != nil {
		if errors.Is(err, ErrAuthorization) || errors.Is(err, ErrAuthentication) {
			return nil, topic, err
		}
		return nil, topic, retry{err}
	}
	numbers := numbersOf(detail)
	// The end first: what is stored while the time is looked up has no offset of its own there, and is read.
	offsets, err = listOffsets(ctx, l.client, l.cfg.Topic, numbers, listEnd)
	if err != nil || from.Time.IsZero() {
		return offsets, detail.TopicID, err
	}
	byTime, err := listOffsets(ctx, l.client, l.cfg.Topic, numbers, max(from.Time.UnixMilli(), 0))
	if err != nil {
		return nil, topic, err
	}
	for n, found := range byTime {
		if found.offset >= 0 && found.offset < offsets[n].offset {
			offsets[n] = found
		}
	}
	return offsets, detail.TopicID, nil
}

func numbersOf(topic *kmsg.MetadataResponseTopic) (numbers []int32) {
	for _, p := range topic.Partitions {
		numbers = append(numbers, p.Partition)
	}
	slices.Sort(numbers)
	return numbers
}

// start begins to read.
func (s *subscription) start(offsets map[int32]position) (err error) {
	assigned := make(map[int32]kgo.Offset, len(offsets))
	for n, p := range offsets {
		s.partitions[n] = newReading(p.offset)
		assigned[n] = kgo.NewOffset().At(p.offset).WithEpoch(p.epoch)
	}
	if s.client, err = newReader(s.log.cfg, assigned); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.refresher.Go(func() { s.refresh(ctx) })
	return nil
}

// newReader makes a client that reads the partitions from the offsets given.
func newReader(cfg Config, from map[int32]kgo.Offset) (*kgo.Client, error) {
	return newClient(
		cfg,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{cfg.Topic: from}),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(fetchWait),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		// Where retention has passed the position, reading goes on at what is left; where the log was cut and nobody knows at
		// which offset, a minute before. Neither is silent: the first shows in the offsets, the second is an error.
		kgo.ConsumeResetOffset(kgo.RewindOffset(time.Minute)),
		kgo.KeepControlRecords(), // or their offsets would look like a loss
	)
}

// ended tells in a fixed order why Next must not go on (D2).
func (s *subscription) ended(ctx context.Context) error {
	select {
	case <-s.closed:
		return metadata.ErrClosed
	default:
		return s.log.ended(ctx)
	}
}

// Next returns the next event or gap, see [metadata.Subscription].
func (s *subscription) Next(ctx context.Context) (metadata.Item, error) {
	for {
		if err := s.ended(ctx); err != nil {
			return metadata.Item{}, err
		}
		item, client, err := s.step()
		switch {
		case err != nil:
			return metadata.Item{}, err
		case item.Event != nil:
			if hook := s.log.cfg.Hooks.Delivered; hook != nil {
				hook(item.Event)
			}
			return item, nil
		case item.Gap != nil:
			if hook := s.log.cfg.Hooks.Gap; hook != nil {
				hook(*item.Gap)
			}
			return item, nil
		}
		s.await(ctx, client)
	}
}

// await waits for records, or until a look at the topic has found that some are gone.
func (s *subscription) await(ctx context.Context, client *kgo.Client) {
	ctx, wake := context.WithCancel(ctx)
	defer wake()
	s.mu.Lock()
	s.wake = wake
	told := len(s.gaps) > 0
	s.mu.Unlock()
	if !told {
		s.take(client, client.PollFetches(ctx))
	}
}

// take takes over what has been fetched. Errors of partitions come in it, too.
func (s *subscription) take(client *kgo.Client, fetches kgo.Fetches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != s.client { // of a topic that is gone
		return
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Topic == s.log.cfg.Topic {
			s.fetched = append(s.fetched, p.FetchPartition)
		}
	})
}

// step returns the next item, or whom to ask for more.
func (s *subscription) step() (metadata.Item, *kgo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case len(s.gaps) > 0:
			gap := s.gaps[0]
			s.gaps = s.gaps[1:]
			return metadata.Item{Gap: &gap}, nil, nil
		case s.waiting:
			s.waiting = false
			return metadata.Item{Event: s.event}, nil, nil
		case s.failed != nil:
			err := s.failed
			s.failed = nil
			return metadata.Item{}, nil, err
		case len(s.fetched) == 0:
			return metadata.Item{}, s.client, nil
		}
		p := &s.fetched[0]
		if len(p.Records) == 0 {
			if p.Err != nil {
				s.trouble(p.Partition, p.Err, p.HighWatermark)
			}
			s.fetched[0] = kgo.FetchPartition{}
			s.fetched = s.fetched[1:]
			continue
		}
		r := p.Records[0]
		p.Records = p.Records[1:]
		s.waiting = s.accept(r)
	}
}

// accept looks at the next record of a partition, and tells whether s.event is to be yielded once s.gaps are.
func (s *subscription) accept(r *kgo.Record) (deliver bool) {
	at := s.partitions[r.Partition]
	switch {
	case at == nil:
		return false
	case r.Offset > at.next && r.Offset <= at.gone: // of which look has told already
	case r.Offset > at.next: // nothing but loss leaves offsets out: there are no transactions and no compaction
		s.lose(at, metadata.GapMissing)
		s.warn("records of the metadata topic were gone before they were read", r.Partition, at.next, r.Offset)
	case r.Offset < at.next: // nothing but a log that was cut goes back
		s.lose(at, metadata.GapMissing)
		s.warn("the metadata topic was cut", r.Partition, r.Offset, at.next)
		at.cutFrom = at.next
	}
	at.next, at.damaged = r.Offset+1, false
	if r.Attrs.IsControl() { // of a transaction, which is none of ours
		return false
	}
	broker, epoch, ok := identify(r)
	if !ok {
		s.report(metadata.DamageForeign, r.Partition, r.Offset, -1, errForeign)
		return false
	}
	if told, known := at.brokers[broker]; !known || told < at.losses {
		if at.losses > 0 {
			s.gap(s.sequencer.Unreadable(broker, -1, -1, metadata.GapMissing))
		}
		at.brokers[broker] = at.losses
	}
	return s.decode(r, broker, epoch)
}

var errForeign = errors.New("the record's key is no broker id")

// decode decodes the event of a record.
func (s *subscription) decode(r *kgo.Record, broker int32, epoch int64) (deliver bool) {
	if s.event = s.events[broker]; s.event == nil {
		s.event = new(metadata.Event)
	}
	err := s.event.UnmarshalBinary(r.Value)
	if id := s.event.Segment.ID; err == nil && (id.BrokerID != broker || epoch >= 0 && id.BrokerEpoch != epoch) {
		err = fmt.Errorf("%w: the event of segment %s is in a record of broker %d, epoch %d", metadata.ErrCorrupt, id, broker, epoch)
	}
	if err != nil { // M4
		sequence, reason, kind := int64(-1), metadata.GapCorrupt, metadata.DamageCorrupt
		if unknown := (*metadata.UnknownVersionError)(nil); errors.As(err, &unknown) {
			sequence, reason, kind = unknown.Sequence, metadata.GapUnknownVersion, metadata.DamageUnknownVersion
		}
		s.report(kind, r.Partition, r.Offset, broker, err)
		s.gap(s.sequencer.Unreadable(broker, epoch, sequence, reason))
		return false
	}
	s.events[broker] = s.event
	missing, deliver := s.sequencer.Accept(s.event)
	if missing != nil {
		s.gap(*missing)
	}
	if !deliver {
		if hook := s.log.cfg.Hooks.Duplicate; hook != nil {
			hook(s.event)
		}
	}
	return deliver
}

func (s *subscription) gap(g metadata.Gap) { s.gaps = append(s.gaps, g) }

// lose tells the brokers of a partition that something of it is missing (M3). Those not met yet are told when they are.
func (s *subscription) lose(at *reading, reason metadata.GapReason) {
	at.losses++
	for _, broker := range slices.Sorted(maps.Keys(at.brokers)) {
		s.gap(s.sequencer.Unreadable(broker, -1, -1, reason))
		at.brokers[broker] = at.losses
	}
}

func (s *subscription) warn(what string, partition int32, from, to int64) {
	s.log.cfg.Logger.Warn(what, slog.String("topic", s.log.cfg.Topic), slog.Int("partition", int(partition)),
		slog.Int64("from", from), slog.Int64("to", to))
}

// report tells of something that cannot be used.
func (s *subscription) report(kind metadata.DamageKind, partition int32, offset int64, broker int32, err error) {
	name := fmt.Sprintf("%s-%d", s.log.cfg.Topic, partition)
	s.log.cfg.Logger.Warn("the metadata topic holds something that cannot be used", slog.String("kind", string(kind)),
		slog.String("partition", name), slog.Int64("offset", offset), slog.Any("err", err))
	if hook := s.log.cfg.Hooks.Damage; hook != nil {
		hook(metadata.Damage{Kind: kind, Name: name, Offset: offset, BrokerID: broker, Err: err})
	}
}

// trouble handles an error of a partition. The client has tried again what may be tried again. The high watermark is that of
// the answer that held a batch, and 0 where there was no such answer.
func (s *subscription) trouble(partition int32, err error, highWatermark int64) {
	at := s.partitions[partition]
	var loss *kgo.ErrDataLoss
	var answered *kerr.Error
	switch {
	case errors.Is(err, kgo.ErrClientClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &loss): // the log was cut, and the client goes on where it was
		if at == nil {
			return
		}
		if at.cutFrom == loss.ConsumedTo { // which a record has shown
			at.cutFrom = -1
			return
		}
		at.next, at.damaged = loss.ResetTo, false
		s.lose(at, metadata.GapMissing)
		s.warn("the metadata topic was cut", partition, loss.ResetTo, loss.ConsumedTo)
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
		// Deleted, and perhaps created again: refresh finds out.
	case isUnreachable(err): // the client goes on trying
	case errors.As(err, &answered), at == nil, highWatermark <= at.next: // no batch is to blame: a certificate may have expired
		s.failed = classify(err, fmt.Sprintf("reading partition %d of topic %s", partition, s.log.cfg.Topic), "READ on topic "+s.log.cfg.Topic)
	default: // a batch that cannot be read (M4). It is passed over record by record where nothing tells its end
		if !at.damaged {
			at.damaged = true
			s.report(metadata.DamageCorrupt, partition, at.next, -1, err)
			s.lose(at, metadata.GapCorrupt)
		}
		at.next = behind(at.next, err)
		s.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.log.cfg.Topic: {partition: {Epoch: -1, Offset: at.next}}})
	}
}

// Close ends the subscription, and the call of Next under way.
func (s *subscription) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.log.unsubscribe(s)
		s.cancel()
		s.refresher.Wait() // then nobody puts another client in the place of this one
		s.client.Close()
	})
	return nil
}
