package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// controller stands for the controllers of a real cluster: it says which topics there are, who leads, and who is in sync.
// What it has decided is on disk before anybody hears of it, so an epoch is never given out twice (B6).
type controller struct {
	path    string
	unclean bool // whether a replica that is not in sync may lead when no other can

	mu  sync.Mutex // held by who changes the image
	now atomic.Pointer[image]

	heard   sync.Mutex
	obeyed  map[int32]int64 // by broker, the newest image that it has done everything for
	changed chan struct{}   // closed and replaced when that changes
}

// image is what the controller knows at one time. It is never changed: a new one replaces it.
type image struct {
	Cluster     string
	BrokerEpoch int64 // the last one that was given out
	ProducerID  int64 // the next one that may be given out
	Topics      map[string]*topic

	number   int64           // of the image
	alive    map[int32]int64 // the brokers that are registered, and their epochs
	byID     map[uuid.UUID]*topic
	replaced chan struct{} // closed when there is a newer image
}

// topic is a topic and its partitions, which are numbered as they stand.
type topic struct {
	Name       string
	ID         uuid.UUID
	Partitions []assignment
}

// assignment is what the controller says of one partition.
type assignment struct {
	Replicas []int32
	ISR      []int32
	Leader   int32 // -1: none can lead
	Epoch    int32 // of the leader
	Version  int32 // grows with every change
}

var (
	errTopicExists   = errors.New("the topic exists")
	errNoSuchTopic   = errors.New("there is no such topic")
	errStaleRequest  = errors.New("the leader or the assignment has changed")
	errTooFewBrokers = errors.New("there are not enough brokers")
)

// newController reads what an earlier run has decided, or begins a new cluster.
func newController(dir string, unclean bool) (*controller, error) {
	c := &controller{
		path: filepath.Join(dir, "controller.json"), unclean: unclean,
		obeyed: map[int32]int64{}, changed: make(chan struct{}),
	}
	first := &image{Cluster: uuid.NewString(), Topics: map[string]*topic{}}
	data, err := os.ReadFile(c.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, first); err != nil {
			return nil, fmt.Errorf("%s: %w", c.path, err)
		}
	}
	first.alive, first.replaced = map[int32]int64{}, make(chan struct{})
	for _, t := range first.Topics { // nobody is there yet
		for i := range t.Partitions {
			t.Partitions[i].Leader = -1
		}
	}
	first.index()
	c.now.Store(first)
	return c, nil
}

func (m *image) index() {
	m.byID = make(map[uuid.UUID]*topic, len(m.Topics))
	for _, t := range m.Topics {
		m.byID[t.ID] = t
	}
}

// clone copies everything that a change may touch.
func (m *image) clone() *image {
	next := *m
	next.number++
	next.alive = maps.Clone(m.alive)
	next.replaced = make(chan struct{})
	next.Topics = make(map[string]*topic, len(m.Topics))
	for name, t := range m.Topics {
		copied := *t
		copied.Partitions = slices.Clone(t.Partitions)
		next.Topics[name] = &copied
	}
	next.index()
	return &next
}

// current returns the newest image.
func (c *controller) current() *image { return c.now.Load() }

// update makes a new image: change changes a copy of the old one, and if it returns nil the copy is written to disk and
// takes the old one's place.
func (c *controller) update(change func(*image) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current()
	next := old.clone()
	if err := change(next); err != nil {
		return err
	}
	next.index()
	data, err := json.MarshalIndent(next, "", " ")
	if err != nil {
		return err
	}
	if err := replaceFile(c.path, data); err != nil {
		return err
	}
	c.now.Store(next)
	close(old.replaced)
	return nil
}

// replaceFile writes a file so that after a crash either the old content is there or the new.
func replaceFile(path string, data []byte) error {
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes durable which names a directory holds.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// hasObeyed notes that a broker has done everything that an image says.
func (c *controller) hasObeyed(id int32, number int64) {
	c.heard.Lock()
	defer c.heard.Unlock()
	c.obeyed[id] = number
	close(c.changed)
	c.changed = make(chan struct{})
}

// settle waits until all brokers have done what the newest image says: a client that creates a topic and produces at once
// then finds its leaders.
func (c *controller) settle(ctx context.Context, limit time.Duration) {
	m := c.current()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		c.heard.Lock()
		changed, all := c.changed, true
		for id := range c.current().alive {
			all = all && c.obeyed[id] >= m.number
		}
		c.heard.Unlock()
		if all {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// register makes a broker part of the cluster and returns its epoch, which no run of a broker has had before. What it led
// or followed in an earlier run has ended.
func (c *controller) register(id int32) (epoch int64, err error) {
	err = c.update(func(m *image) error {
		m.fence(id, c.unclean)
		// A time, so that it is new even where this file was lost and the metadata log was not (L6).
		m.BrokerEpoch = max(m.BrokerEpoch+1, time.Now().UnixMilli())
		epoch = m.BrokerEpoch
		m.alive[id] = epoch
		m.elect(c.unclean)
		return nil
	})
	return epoch, err
}

// fence takes a broker that has died out of the cluster.
func (c *controller) fence(id int32) error {
	return c.update(func(m *image) error {
		m.fence(id, c.unclean)
		return nil
	})
}

func (m *image) fence(id int32, unclean bool) {
	delete(m.alive, id)
	for _, t := range m.Topics {
		for i := range t.Partitions {
			a := &t.Partitions[i]
			// The last one in sync stays so: it has what was acknowledged, and nobody else can lead without a loss.
			if len(a.ISR) > 1 && slices.Contains(a.ISR, id) {
				a.ISR = without(a.ISR, id)
				a.Version++
			}
			if a.Leader == id {
				a.Leader = -1
				a.Version++
			}
		}
	}
	m.elect(unclean)
}

// elect finds a leader for every partition that has none: a replica in sync, or, if that is allowed, any. Each start of
// leadership has an epoch of its own (B6).
func (m *image) elect(unclean bool) {
	for _, t := range m.Topics {
		for i := range t.Partitions {
			a := &t.Partitions[i]
			if a.Leader >= 0 {
				continue
			}
			for _, clean := range []bool{true, false} {
				if !clean && !unclean || a.Leader >= 0 {
					break
				}
				for _, id := range a.Replicas {
					if _, alive := m.alive[id]; !alive || clean && !slices.Contains(a.ISR, id) {
						continue
					}
					if !clean {
						a.ISR = []int32{id}
					}
					a.Leader = id
					a.Epoch++
					a.Version++
					break
				}
			}
		}
	}
}

// without returns the ids but one, in a new slice.
func without(ids []int32, id int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(other int32) bool { return other == id })
}

// createTopic creates a topic on the brokers that are registered. Leaders go round.
func (c *controller) createTopic(name string, partitions, replicas int) (created *topic, err error) {
	err = c.update(func(m *image) error {
		if m.Topics[name] != nil {
			return errTopicExists
		}
		ids := slices.Sorted(maps.Keys(m.alive))
		if len(ids) < replicas {
			return errTooFewBrokers
		}
		t := &topic{Name: name, ID: uuid.New()}
		first := 0
		for _, other := range m.Topics {
			first += len(other.Partitions)
		}
		for n := range partitions {
			a := assignment{Leader: -1, Epoch: -1}
			for i := range replicas {
				a.Replicas = append(a.Replicas, ids[(first+n+i)%len(ids)])
			}
			a.ISR = slices.Clone(a.Replicas)
			t.Partitions = append(t.Partitions, a)
		}
		m.Topics[name] = t
		m.elect(false)
		created = t
		return nil
	})
	return created, err
}

// deleteTopic deletes a topic. Its id is never used again.
func (c *controller) deleteTopic(id uuid.UUID) error {
	return c.update(func(m *image) error {
		t := m.byID[id]
		if t == nil {
			return errNoSuchTopic
		}
		delete(m.Topics, t.Name)
		return nil
	})
}

// alterISR is the leader's request to change who is in sync. It is refused unless the leader's view is the newest, and
// each broker that comes in is alive in the epoch in which the leader has seen it (KIP-903).
func (c *controller) alterISR(id uuid.UUID, n int32, leader, epoch, version int32, isr map[int32]int64) (now assignment, err error) {
	err = c.update(func(m *image) error {
		t := m.byID[id]
		if t == nil {
			return errNoSuchTopic
		}
		a := &t.Partitions[n]
		if a.Leader != leader || a.Epoch != epoch || a.Version != version {
			return errStaleRequest
		}
		for replica, brokerEpoch := range isr {
			if alive, ok := m.alive[replica]; !slices.Contains(a.ISR, replica) && (!ok || alive != brokerEpoch) {
				return errStaleRequest
			}
		}
		a.ISR = nil
		for _, replica := range a.Replicas {
			if _, in := isr[replica]; in {
				a.ISR = append(a.ISR, replica)
			}
		}
		a.Version++
		now = *a
		return nil
	})
	return now, err
}

// producerIDs is how many producer ids are taken from the disk at a time.
const producerIDs = 1000

// nextProducerIDs gives out producer ids that nobody has had: from first on, producerIDs of them.
func (c *controller) nextProducerIDs() (first int64, err error) {
	err = c.update(func(m *image) error {
		first = m.ProducerID
		m.ProducerID += producerIDs
		return nil
	})
	return first, err
}
