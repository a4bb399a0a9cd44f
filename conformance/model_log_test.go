package conformance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
)

// modelTopics is the smallest metadata log that is right. The wrong ones are made of it.
type modelTopics struct {
	flaws logFlaws

	mu     sync.Mutex
	topics map[string]*modelTopic
}

type modelTopic struct {
	records []modelRecord
	newest  map[int32]int64 // broker epochs
	changed chan struct{}
	readers map[*modelSubscription]bool

	subscriptions int
}

type modelRecord struct {
	broker int32
	epoch  int64
	stamp  time.Time
	data   []byte
	kept   *metadata.Event    // what keepsEvents delivers
	spoilt metadata.GapReason // why it cannot be read
}

// logFlaws are ways in which a model log can be wrong. Each is named after what it does.
type logFlaws struct {
	losesSome        bool // Publish: every 25th event of a handle is acknowledged and not stored
	swapsInBatch     bool // Publish: the events of a batch are stored the wrong way round
	keepsEvents      bool // Publish: keeps the event and not its content
	neverFences      bool // Publish: an older epoch goes on
	acceptsAnything  bool // Publish: events are not checked
	countsWrong      bool // Publish: says that nothing of a batch is stored whose last part was invalid
	waitsForReaders  bool // Publish: waits while a subscription is more than 250 events behind
	ignoresContext   bool // all: a context that has ended changes nothing, as long as there is something to do
	deliversTwice    bool // Next: duplicates are delivered
	hidesGaps        bool // Next: gaps are not reported
	stopsAtBadEvents bool // Next: an unreadable event is an error for ever
	skipsBadEvents   bool // Next: an unreadable event is passed over silently
	fixedLate        bool // Subscribe: the position of every tenth subscription is fixed by its first Next
	fromBeginning    bool // Subscribe: the end is the beginning
	forgetsFirst     bool // Subscribe: a replay lacks the first event
	nextOutlives     bool // Close: a Next under way goes on
	closedIsNil      bool // Close: later calls are no errors
	unknownIsLost    bool // Unknown: the retry after an unknown outcome is not stored
}

func newModelTopics(flaws logFlaws) *modelTopics {
	return &modelTopics{flaws: flaws, topics: make(map[string]*modelTopic)}
}

func (s *modelTopics) topic(name string) *modelTopic {
	t := s.topics[name]
	if t == nil {
		t = &modelTopic{newest: make(map[int32]int64), changed: make(chan struct{}), readers: make(map[*modelSubscription]bool)}
		s.topics[name] = t
	}
	return t
}

// config is the configuration of a suite over model logs.
func (s *modelTopics) config() MetadataConfig {
	return MetadataConfig{
		Open: func(_ testing.TB, topic string, broker int32, epoch int64) metadata.Log {
			return s.open(topic, broker, epoch)
		},
		Damage: func(_ testing.TB, topic string, broker int32, reason metadata.GapReason) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			records := s.topic(topic).records
			for i := len(records) - 1; i >= 0; i-- {
				if records[i].broker == broker {
					records[i].spoilt = reason
					return true
				}
			}
			return false
		},
		Unknown: func(_ testing.TB, topic string, broker int32, epoch int64, stored bool) metadata.Log {
			log := s.open(topic, broker, epoch)
			log.unknown, log.storeUnknown = true, stored
			return log
		},
	}
}

func (s *modelTopics) open(topic string, broker int32, epoch int64) *modelLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &modelLog{topics: s, topic: s.topic(topic), broker: broker, epoch: epoch, closed: make(chan struct{})}
}

// modelLog is a handle on a topic. Its state is guarded by the mutex of all topics.
type modelLog struct {
	topics                *modelTopics
	topic                 *modelTopic
	broker                int32
	epoch                 int64
	unknown, storeUnknown bool
	lost                  bool
	events                int
	closed                chan struct{}
	once                  sync.Once
}

func (l *modelLog) ended(ctx context.Context) error {
	select {
	case <-l.closed:
		if !l.topics.flaws.closedIsNil {
			return metadata.ErrClosed
		}
	default:
	}
	if l.topics.flaws.ignoresContext {
		return nil
	}
	return ctx.Err()
}

func (l *modelLog) Publish(ctx context.Context, events ...*metadata.Event) (stored int, err error) {
	if err := l.ended(ctx); err != nil {
		return 0, err
	}
	flaws := l.topics.flaws
	var records []modelRecord
	for _, e := range events {
		var data []byte
		if !flaws.acceptsAnything || e == nil {
			if err = metadata.CheckWriter(e, l.broker, l.epoch); err != nil {
				break
			}
		}
		if data, err = e.AppendBinary(nil); err != nil {
			if flaws.acceptsAnything {
				err = nil
				records = append(records, modelRecord{spoilt: metadata.GapCorrupt, broker: l.broker})
				continue
			}
			break
		}
		records = append(records, modelRecord{broker: l.broker, epoch: l.epoch, stamp: time.Now(), data: data, kept: e})
	}
	l.topics.mu.Lock()
	if l.epoch < l.topic.newest[l.broker] && !flaws.neverFences {
		l.topics.mu.Unlock()
		return 0, metadata.ErrFenced
	}
	if l.unknown {
		l.unknown, l.lost = false, flaws.unknownIsLost
		if l.storeUnknown {
			l.store(records)
		}
		l.topics.mu.Unlock()
		return 0, metadata.ErrUnknownOutcome
	}
	stored = len(records)
	switch {
	case l.lost:
		l.lost = false
		records = nil
	case flaws.losesSome:
		kept := records[:0]
		for _, r := range records {
			if l.events++; l.events%25 != 0 {
				kept = append(kept, r)
			}
		}
		records = kept
	case flaws.swapsInBatch && len(records) > 1:
		records[0], records[1] = records[1], records[0]
	}
	l.store(records)
	stop := len(l.topic.records) - 250
	var waiting []*modelSubscription
	for reader := range l.topic.readers {
		waiting = append(waiting, reader)
	}
	l.topics.mu.Unlock()
	if flaws.waitsForReaders {
		for _, reader := range waiting {
			reader.reach(ctx, stop)
		}
	}
	if flaws.countsWrong && err != nil {
		stored = 0
	}
	return stored, err
}

func (l *modelLog) store(records []modelRecord) {
	if len(records) > 0 {
		l.topic.newest[l.broker] = max(l.topic.newest[l.broker], l.epoch)
	}
	l.topic.records = append(l.topic.records, records...)
	close(l.topic.changed)
	l.topic.changed = make(chan struct{})
}

func (l *modelLog) Subscribe(ctx context.Context, from metadata.Position) (metadata.Subscription, error) {
	if err := l.ended(ctx); err != nil {
		return nil, err
	}
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	s := &modelSubscription{log: l, next: len(l.topic.records), closed: make(chan struct{})}
	l.topic.subscriptions++
	s.unfixed = l.topics.flaws.fixedLate && l.topic.subscriptions%10 == 0
	if !from.Time.IsZero() || l.topics.flaws.fromBeginning {
		s.next, s.unfixed = 0, false
		for s.next < len(l.topic.records) && l.topic.records[s.next].stamp.Before(from.Time) {
			s.next++
		}
		if l.topics.flaws.forgetsFirst {
			s.next++
		}
	}
	l.topic.readers[s] = true
	return s, nil
}

func (l *modelLog) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

type modelSubscription struct {
	log       *modelLog
	next      int
	unfixed   bool
	sequencer metadata.Sequencer
	event     metadata.Event
	pending   bool
	closed    chan struct{}
	once      sync.Once
}

// reach waits until the subscription has come to the record given or is closed, or the context has ended.
func (s *modelSubscription) reach(ctx context.Context, n int) {
	for {
		s.log.topics.mu.Lock()
		there, changed := s.next >= n, s.log.topic.changed
		s.log.topics.mu.Unlock()
		if there {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		case <-s.log.closed:
			return
		}
	}
}

func (s *modelSubscription) Next(ctx context.Context) (metadata.Item, error) {
	flaws := s.log.topics.flaws
	for {
		select {
		case <-s.closed:
			return metadata.Item{}, metadata.ErrClosed
		default:
		}
		if err := s.log.ended(ctx); err != nil {
			return metadata.Item{}, err
		}
		if s.pending {
			s.pending = false
			return metadata.Item{Event: &s.event}, nil
		}
		s.log.topics.mu.Lock()
		if s.unfixed {
			s.next, s.unfixed = len(s.log.topic.records), false
		}
		changed := s.log.topic.changed
		var record *modelRecord
		if s.next < len(s.log.topic.records) {
			record = &s.log.topic.records[s.next]
			s.next++
			if flaws.waitsForReaders {
				close(changed)
				s.log.topic.changed = make(chan struct{})
			}
		}
		s.log.topics.mu.Unlock()
		if record == nil {
			closed := s.closed
			logClosed := s.log.closed
			if flaws.nextOutlives {
				closed, logClosed = nil, nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				if flaws.ignoresContext {
					return metadata.Item{}, ctx.Err() // or the test of the suite would never end
				}
			case <-closed:
			case <-logClosed:
				if flaws.closedIsNil {
					return metadata.Item{}, errors.New("no more events")
				}
			}
			continue
		}
		if item, ok, err := s.read(record); ok || err != nil {
			return item, err
		}
	}
}

// read makes an item of a record, or none.
func (s *modelSubscription) read(record *modelRecord) (metadata.Item, bool, error) {
	flaws := s.log.topics.flaws
	if record.spoilt != "" {
		switch {
		case flaws.stopsAtBadEvents:
			s.next--
			return metadata.Item{}, false, metadata.ErrCorrupt
		case flaws.skipsBadEvents:
			_ = s.sequencer.Unreadable(record.broker, -1, -1, record.spoilt)
			return metadata.Item{}, false, nil
		}
		gap := s.sequencer.Unreadable(record.broker, record.epoch, -1, record.spoilt)
		return metadata.Item{Gap: &gap}, true, nil
	}
	if err := s.event.UnmarshalBinary(record.data); err != nil {
		return metadata.Item{}, false, err
	}
	gap, deliver := s.sequencer.Accept(&s.event)
	event := &s.event
	if flaws.keepsEvents {
		event = record.kept
	}
	deliver = deliver || flaws.deliversTwice
	switch {
	case gap != nil && !flaws.hidesGaps:
		s.pending = deliver
		return metadata.Item{Gap: gap}, true, nil
	case deliver:
		return metadata.Item{Event: event}, true, nil
	}
	return metadata.Item{}, false, nil
}

func (s *modelSubscription) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.log.topics.mu.Lock()
		defer s.log.topics.mu.Unlock()
		delete(s.log.topic.readers, s)
	})
	return nil
}

// The smallest log that is right passes.
func TestModelLogPasses(t *testing.T) {
	t.Parallel()
	RunMetadata(t, newModelTopics(logFlaws{}).config())
}

// TestMetadataMutants shows that the suite for metadata logs can fail: each wrong log fails the case named for it and
// none outside its set.
func TestMetadataMutants(t *testing.T) {
	for _, m := range metadataMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			failed := runMetadataMutant(t, m.flaws)
			require.Contains(t, failed, m.caught, "the wrong log survived")
			expected := append(strings.Fields(m.also), m.caught)
			for id, texts := range failed {
				require.Contains(t, expected, id, "false alarm: %s", strings.Join(texts, "\n"))
			}
		})
	}
	require.Empty(t, runMetadataMutant(t, logFlaws{}), "the right log that the wrong ones are made of")
}

// metadataMutants are logs that are wrong in one way each.
var metadataMutants = []struct {
	name, caught, also string
	flaws              logFlaws
}{
	{"an acknowledged event is lost", "Q1", "Q2 Q8 Q9 Q21 Q31", logFlaws{losesSome: true}},
	{"a batch is stored out of order", "Q2", "Q1 Q4 Q5 Q7 Q11 Q12 Q13 Q21 Q26 Q28 Q31", logFlaws{swapsInBatch: true}},
	{"published events are kept", "Q24", "", logFlaws{keepsEvents: true}},
	{"an older epoch goes on", "Q13", "", logFlaws{neverFences: true}},
	{"events are not checked", "Q27", "Q28", logFlaws{acceptsAnything: true}},
	{"the stored part of a refused batch is not told", "Q28", "", logFlaws{countsWrong: true}},
	{"Publish waits for readers", "Q31", "Q9", logFlaws{waitsForReaders: true}},
	{"contexts are ignored", "Q23", "Q11", logFlaws{ignoresContext: true}},
	{"duplicates are delivered", "Q4", "Q12", logFlaws{deliversTwice: true}},
	{"gaps are hidden", "Q5", "Q13", logFlaws{hidesGaps: true}},
	{"a bad event stops the stream", "Q7", "", logFlaws{stopsAtBadEvents: true}},
	{"a bad event is passed over silently", "Q7", "", logFlaws{skipsBadEvents: true}},
	{"Subscribe returns before its position is fixed", "Q8", "", logFlaws{fixedLate: true}},
	{"the end is the beginning", "Q8", "Q12 Q22", logFlaws{fromBeginning: true}},
	{"a replay lacks its first event", "Q30", "Q2 Q4 Q7 Q12 Q21 Q29", logFlaws{forgetsFirst: true}},
	{"Next outlives Close", "Q22", "", logFlaws{nextOutlives: true}},
	{"a closed log goes on", "Q29", "Q22", logFlaws{closedIsNil: true}},
	{"a publication is lost after an unknown outcome", "Q12", "", logFlaws{unknownIsLost: true}},
}

func runMetadataMutant(t *testing.T, flaws logFlaws) map[string][]string {
	cfg, err := newModelTopics(flaws).config().check()
	require.NoError(t, err)
	r := newMetadataRunner(cfg)
	r.prompt, r.patience, r.delivery = time.Second, 300*time.Millisecond, 500*time.Millisecond
	failed := make(map[string][]string)
	for _, tc := range metadataCases {
		out := r.run(t, t.Name()+"/"+tc.id, tc)
		if out.failed {
			failed[tc.id] = out.failures
		}
		if len(out.leaked) > 0 {
			failed[leaked] = append(failed[leaked], tc.id+": "+strings.Join(out.leaked, "\n"))
			r.patience = 0
		}
	}
	return failed
}
