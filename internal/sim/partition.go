package sim

import (
	"fmt"
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
	records  int64               // so many were produced
}

// newPartition makes partition number index, of a topic of its own whose id is a pure function of the seed.
func newPartition(i *instants, index int) *Partition {
	p := &Partition{index: index, truth: newTruth(), appended: map[place]time.Time{}}
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
	value := fmt.Sprintf("%s/%d ", p.Topic, p.records)
	for len(value) < size {
		value += "................................................................"[:min(64, size-len(value))]
	}
	return value
}
