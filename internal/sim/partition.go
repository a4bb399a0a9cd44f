package sim

import (
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/walstorage/segment"
)

// Partition is one partition of the cluster.
type Partition struct {
	segment.TopicIDPartition
	index int
	truth *truth
	// leaderEnd is the log end of the newest leader.
	leaderEnd atomic.Int64

	mu       sync.Mutex
	appended map[place]time.Time // when a leader appended a batch
	ends     []leaderEnd         // of the newest leader, one for each append
	endsOf   int32               // its epoch
	records  int64               // so many were produced
}

// newPartition makes partition number index, of a topic of its own whose id is a pure function of the seed.
func newPartition(i *instants, index int) *Partition {
	p := &Partition{index: index, truth: newTruth(), appended: map[place]time.Time{}, endsOf: -1}
	p.Topic = fmt.Sprintf("t%d", index)
	c := i.chance.of("topic id " + p.Topic)
	for k := range 2 {
		bits := c.bits(uint64(k), "id")
		for j := range 8 {
			p.TopicID[8*k+j] = byte(bits >> (8 * j))
		}
	}
	p.TopicID[6] = p.TopicID[6]&0x0f | 0x40
	p.TopicID[8] = p.TopicID[8]&0x3f | 0x80
	if p.TopicID == uuid.Nil {
		panic("sim: the topic id is zero")
	}
	return p
}

func (p *Partition) noteAppended(epoch int32, base int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.appended[place{epoch, base}] = time.Now()
}

// leaderEnd is the end of a leader's log, and since when.
type leaderEnd struct {
	end int64
	at  time.Time
}

// noteEnd notes the end of the log of the leader of an epoch.
func (p *Partition) noteEnd(epoch int32, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch > p.endsOf {
		p.ends, p.endsOf = p.ends[:0], epoch
	}
	if epoch == p.endsOf {
		p.ends = append(p.ends, leaderEnd{end, time.Now()})
	}
}

// lag returns for how long the newest leader has had something that a log with this end lacks: the true lag.
func (p *Partition) lag(end int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := sort.Search(len(p.ends), func(i int) bool { return p.ends[i].end > end })
	if i == len(p.ends) {
		return 0
	}
	return time.Since(p.ends[i].at)
}

func (p *Partition) appendedAt(epoch int32, base int64) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.appended[place{epoch, base}]
	return at, ok
}

// nextValue returns a value that no other record of the partition has, size bytes long or a little more.
func (p *Partition) nextValue(size int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records++
	value := fmt.Sprintf("%s#%d/%d ", p.Topic, p.index, p.records)
	for len(value) < size {
		value += "................................................................"[:min(64, size-len(value))]
	}
	return value
}
