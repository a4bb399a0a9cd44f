package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// modelStore is the smallest store that is right: a WalStorageManager that is no objectstore.Manager. It shows that the
// suite asks for the contract alone, and the wrong managers are made of it.
type modelStore struct {
	mu     sync.Mutex
	places map[place]map[walstorage.SegmentID]modelSegment
	leaks  []chan struct{} // what leaksOnCancel has left
}

type modelSegment struct {
	data   []byte
	stored time.Time
}

func newModelStore() *modelStore {
	return &modelStore{places: make(map[place]map[walstorage.SegmentID]modelSegment)}
}

// flaws are ways in which a model manager can be wrong. Each is named after what it does.
type flaws struct {
	statThenWrite      bool // create: looks, lets go of the lock, writes
	overwrites         bool // create: the last writer wins
	otherBytesSucceed  bool // create: exists with other bytes is success, and the old bytes stay
	comparesSizeOnly   bool // create: the same size counts as the same bytes
	sameBytesFail      bool // create: the same bytes again are "exists"
	partialVisible     bool // create: the first half can be read before the second
	keepsData          bool // create: stores the caller's buffer
	changesData        bool // create: writes to the caller's buffer
	decodesGzip        bool // fetch: cuts what looks like a compressed stream
	writesLate         bool // fetch: writes to dst again at the next call
	shortRead          bool // fetch: a range that ends beyond the end is cut, without an error
	emptyPastEnd       bool // fetch: a range that begins at the end or beyond is nothing, without an error
	emptyDstAsks       bool // fetch: no bytes of a missing segment are "not found"
	offByOne           bool // fetch: the last byte cannot be read
	missingIsRange     bool // fetch: a missing segment is an invalid range
	ignoresContext     bool // all: a context that has ended changes nothing
	swapsContextErrors bool // all: a cancel is reported as a deadline
	deleteByMinute     bool // delete: takes what lies in the same minute along
	deleteMissingFails bool // delete: a missing segment is an error
	deleteDropsFirst   bool // delete: of several, the first is not deleted
	listDropsOne       bool // list: one of three or more is not listed
	listIgnoresBroker  bool // list: options do not select by broker
	listBoundsOff      bool // list: CreatedBefore is inclusive
	listOnce           bool // list: a second range over the sequence yields nothing
	bareErrors         bool // all: kinds without *walstorage.Error
	noOperation        bool // all: errors name no operation
	slashCounts        bool // all: a prefix with a slash at its end is another one
	clustersMixed      bool // all: clusters on one prefix see each other
	closeTwiceFails    bool // Close: the second is an error
	openAfterClose     bool // Close: later calls go on
	leaksOnCancel      bool // all: a cancelled call leaves a goroutine
	slowToSee          bool // fetch, stat: another handle sees a segment only at the second look
	takesAnything      bool // all: arguments are not checked
	panics             bool // stat: of a missing segment
}

// model is a handle on a place of a modelStore.
type model struct {
	store *modelStore
	at    place
	flaws flaws

	mu     sync.Mutex
	closed bool
	late   func() // what writesLate writes
	mine   map[walstorage.SegmentID]bool
	looked map[walstorage.SegmentID]bool
}

func (s *modelStore) open(at place, flaws flaws) *model {
	if flaws.clustersMixed {
		at.cluster = ""
	}
	return &model{store: s, at: at, flaws: flaws, mine: make(map[walstorage.SegmentID]bool), looked: make(map[walstorage.SegmentID]bool)}
}

// modelConfig is the configuration of a suite over model managers.
func modelConfig(flaws flaws) Config { return newModelStore().config(flaws) }

func (store *modelStore) config(flaws flaws) Config {
	return Config{
		Open: func(_ testing.TB, cfg objectstore.Config) walstorage.WalStorageManager {
			if !flaws.slashCounts {
				cfg.Prefix = strings.TrimSuffix(cfg.Prefix, "/")
			}
			return store.open(place{cfg.Prefix, cfg.Cluster}, flaws)
		},
		MaxObjectSize: modelLimit,
		ListLarge:     60,
	}
}

const modelLimit = 70_000

// begin makes the checks that come before anything else.
func (m *model) begin(ctx context.Context, op walstorage.Op, id walstorage.SegmentID, valid error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed && !m.flaws.openAfterClose:
		return m.fail(op, id, walstorage.ErrClosed, nil)
	case valid != nil && !m.flaws.takesAnything:
		return m.fail(op, id, walstorage.ErrInvalidArgument, valid)
	case ctx.Err() != nil && !m.flaws.ignoresContext:
		if m.flaws.leaksOnCancel {
			leak := make(chan struct{})
			m.store.mu.Lock()
			m.store.leaks = append(m.store.leaks, leak)
			m.store.mu.Unlock()
			go func() { <-leak }()
		}
		kind := ctx.Err()
		if m.flaws.swapsContextErrors {
			kind = map[error]error{context.Canceled: context.DeadlineExceeded, context.DeadlineExceeded: context.Canceled}[kind]
		}
		return m.fail(op, id, kind, nil)
	}
	if m.late != nil {
		m.late()
		m.late = nil
	}
	return nil
}

func (m *model) fail(op walstorage.Op, id walstorage.SegmentID, kind, cause error) error {
	switch {
	case m.flaws.bareErrors:
		return kind
	case m.flaws.noOperation:
		op = ""
	}
	return &walstorage.Error{Op: op, ID: id, Kind: kind, Cause: cause}
}

func (m *model) segments() map[walstorage.SegmentID]modelSegment {
	if m.store.places[m.at] == nil {
		m.store.places[m.at] = make(map[walstorage.SegmentID]modelSegment)
	}
	return m.store.places[m.at]
}

func (m *model) put(id walstorage.SegmentID, data []byte) {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	m.segments()[id] = modelSegment{data: data, stored: time.Now()}
	m.mine[id] = true
}

func (m *model) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	if err := m.begin(ctx, walstorage.OpUpload, id, id.Validate()); err != nil {
		return err
	}
	if len(data) > modelLimit {
		return m.fail(walstorage.OpUpload, id, walstorage.ErrTooLarge, nil)
	}
	content := bytes.Clone(data)
	if m.flaws.keepsData {
		content = data
	}
	if m.flaws.changesData && len(data) > 0 {
		defer func() { data[0] ^= 1 }()
	}
	m.store.mu.Lock()
	old, exists := m.segments()[id]
	if !exists && !m.flaws.statThenWrite {
		first := content
		if m.flaws.partialVisible {
			first = content[:len(content)/2]
		}
		m.segments()[id] = modelSegment{data: first, stored: time.Now()}
		m.mine[id] = true
	}
	m.store.mu.Unlock()
	if exists {
		same := bytes.Equal(old.data, data) || m.flaws.comparesSizeOnly && len(old.data) == len(data)
		switch {
		case m.flaws.overwrites:
			m.put(id, content)
		case same && m.flaws.sameBytesFail, !same && !m.flaws.otherBytesSucceed:
			return m.fail(walstorage.OpUpload, id, walstorage.ErrSegmentExists, nil)
		}
		return nil
	}
	switch {
	case m.flaws.statThenWrite:
		for range 10 {
			runtime.Gosched()
		}
		m.put(id, content)
	case m.flaws.partialVisible:
		if len(content) > 60_000 {
			<-time.After(2 * time.Millisecond) // as long as a slow network
		}
		m.put(id, content)
	}
	return nil
}

func (m *model) get(id walstorage.SegmentID) (modelSegment, bool) {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	s, ok := m.segments()[id]
	if ok && m.flaws.slowToSee && !m.mine[id] && !m.looked[id] {
		m.looked[id] = true
		return modelSegment{}, false
	}
	return s, ok
}

func (m *model) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	valid := id.Validate()
	if valid == nil && offset < 0 {
		valid = fmt.Errorf("offset %d is negative", offset)
	}
	if err := m.begin(ctx, walstorage.OpFetch, id, valid); err != nil {
		return err
	}
	if len(dst) == 0 && !m.flaws.emptyDstAsks {
		return nil
	}
	s, ok := m.get(id)
	size := int64(len(s.data))
	if m.flaws.offByOne {
		size--
	}
	switch {
	case !ok && m.flaws.missingIsRange:
		return m.fail(walstorage.OpFetch, id, walstorage.ErrInvalidRange, nil)
	case offset < 0: // nobody has refused it
		return nil
	case !ok:
		return m.fail(walstorage.OpFetch, id, walstorage.ErrSegmentNotFound, nil)
	case m.flaws.emptyPastEnd && offset >= size:
		return nil
	case m.flaws.shortRead && offset < size:
		copy(dst, s.data[offset:])
		return nil
	case offset > math.MaxInt64-int64(len(dst)) || offset+int64(len(dst)) > size:
		return m.fail(walstorage.OpFetch, id, walstorage.ErrInvalidRange, nil)
	}
	copy(dst, s.data[offset:])
	if m.flaws.decodesGzip && bytes.HasPrefix(s.data, []byte{0x1f, 0x8b}) {
		clear(dst)
	}
	if m.flaws.writesLate {
		m.mu.Lock()
		m.late = func() { copy(dst, s.data[offset:]) }
		m.mu.Unlock()
	}
	return nil
}

func (m *model) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	if err := m.begin(ctx, walstorage.OpStat, id, id.Validate()); err != nil {
		return walstorage.SegmentInfo{}, err
	}
	s, ok := m.get(id)
	if !ok {
		if m.flaws.panics {
			panic("no such segment")
		}
		return walstorage.SegmentInfo{}, m.fail(walstorage.OpStat, id, walstorage.ErrSegmentNotFound, nil)
	}
	return walstorage.SegmentInfo{ID: id, Size: int64(len(s.data)), Stored: s.stored}, nil
}

func (m *model) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	for _, id := range ids {
		if id.Validate() != nil && !m.flaws.takesAnything {
			return m.fail(walstorage.OpDelete, id, walstorage.ErrInvalidArgument, id.Validate())
		}
	}
	if err := m.begin(ctx, walstorage.OpDelete, walstorage.SegmentID{}, nil); err != nil {
		if errors.Is(err, walstorage.ErrClosed) {
			return err
		}
		failed := &walstorage.DeleteError{}
		for _, id := range ids {
			failed.Failures = append(failed.Failures, walstorage.DeleteFailure{ID: id, Err: err})
		}
		return failed
	}
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	for i, id := range ids {
		if m.flaws.deleteDropsFirst && i == 0 && len(ids) > 1 {
			continue
		}
		if _, ok := m.segments()[id]; !ok && m.flaws.deleteMissingFails {
			return m.fail(walstorage.OpDelete, id, walstorage.ErrSegmentNotFound, nil)
		}
		delete(m.segments(), id)
		if m.flaws.deleteByMinute {
			for other := range m.segments() {
				if other.BrokerID == id.BrokerID && other.Created().Equal(id.Created()) {
					delete(m.segments(), other)
				}
			}
		}
	}
	return nil
}

func (m *model) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	ranged := false
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		if ranged && m.flaws.listOnce {
			return
		}
		ranged = true
		if err := m.begin(ctx, walstorage.OpList, walstorage.SegmentID{}, nil); err != nil {
			yield(walstorage.SegmentInfo{}, err)
			return
		}
		if m.flaws.listIgnoresBroker {
			options.BrokerID = nil
		}
		if m.flaws.listBoundsOff && !options.CreatedBefore.IsZero() {
			options.CreatedBefore = options.CreatedBefore.Add(time.Millisecond)
		}
		var infos []walstorage.SegmentInfo
		m.store.mu.Lock()
		for id, s := range m.segments() {
			if options.Match(id) {
				infos = append(infos, walstorage.SegmentInfo{ID: id, Size: int64(len(s.data)), Stored: s.stored})
			}
		}
		m.store.mu.Unlock()
		if m.flaws.listDropsOne && len(infos) > 2 {
			infos = slices.Delete(infos, 0, 1)
		}
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed && m.flaws.closeTwiceFails {
		return errors.New("already closed")
	}
	m.closed = true
	return nil
}

// release ends what leaksOnCancel has left, so that the test of the suite itself leaks nothing.
func (s *modelStore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, leak := range s.leaks {
		close(leak)
	}
	s.leaks = nil
}
