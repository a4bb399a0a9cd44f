package memory

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Store holds the objects. Several drivers can share one, as several brokers share a bucket: each [Driver] is a handle
// with its own faults and its own end. A Store is never closed, so it also stands for what is still there after all
// processes are gone. Its methods may be called concurrently and are not subject to faults.
type Store struct {
	mu      sync.Mutex
	objects map[string]stored
	late    []landing // uploads that are still on their way
	arrived int       // counts landings, for an order among equal times
	sorted  []string  // the keys in byte order, nil if objects has changed since; never modified
	version int       // counts the times that sorted was made anew
}

// stored is one object. data is never modified, only replaced.
type stored struct {
	data   []byte
	crc32c uint32
	at     time.Time
}

// landing is an upload that its sender has given up on and that arrives all the same.
type landing struct {
	due    time.Time
	number int
	key    string
	object stored
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{objects: make(map[string]stored)} }

// settle lets everything land that is due. It is called first by every method, under s.mu: nobody can see the
// difference to an object that appeared by itself, and no goroutine is needed.
func (s *Store) settle() {
	if len(s.late) == 0 {
		return
	}
	now := time.Now()
	slices.SortFunc(s.late, func(a, b landing) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return a.number - b.number
	})
	for len(s.late) > 0 && !s.late[0].due.After(now) {
		arrived := s.late[0]
		s.late = s.late[1:]
		if _, exists := s.objects[arrived.key]; !exists {
			s.objects[arrived.key], s.sorted = arrived.object, nil
		}
	}
}

// create stores the object unless the key exists.
func (s *Store) create(key string, object stored) (created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	if _, exists := s.objects[key]; exists {
		return false
	}
	s.objects[key], s.sorted = object, nil
	return true
}

// createLate stores the object after the time given, unless the key exists by then.
func (s *Store) createLate(key string, object stored, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived++
	s.late = append(s.late, landing{due: time.Now().Add(after), number: s.arrived, key: key, object: object})
}

func (s *Store) get(key string) (stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	object, ok := s.objects[key]
	return object, ok
}

// Keys returns the keys of all objects in byte order.
func (s *Store) Keys() []string {
	keys, _ := s.keys()
	return slices.Clone(keys)
}

// keys returns the keys in byte order, not to be modified, and a number that changes whenever they do.
func (s *Store) keys() (sorted []string, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	if s.sorted == nil {
		s.sorted = slices.AppendSeq(make([]string, 0, len(s.objects)), maps.Keys(s.objects))
		slices.Sort(s.sorted)
		s.version++
	}
	return s.sorted, s.version
}

// Object returns a copy of the object's bytes.
func (s *Store) Object(key string) (data []byte, ok bool) {
	object, ok := s.get(key)
	return bytes.Clone(object.data), ok
}

// Put stores an object under any key, over an existing one if there is any: a foreign object, say, in the middle of
// the segments. The store's time is now.
func (s *Store) Put(key string, data []byte, now time.Time) {
	data = bytes.Clone(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.objects[key], s.sorted = stored{data: data, crc32c: crc32.Checksum(data, castagnoli), at: now}, nil
}

// Remove deletes an object and tells whether it was there.
func (s *Store) Remove(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	_, ok := s.objects[key]
	if ok {
		delete(s.objects, key)
		s.sorted = nil
	}
	return ok
}

// Damage changes an object at rest: change gets a copy of its bytes and returns what is stored from then on. The
// checksum that the store tells stays that of the bytes that were uploaded, as on a disk that rots.
func (s *Store) Damage(key string, change func(data []byte) []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	object, ok := s.objects[key]
	if !ok {
		return fmt.Errorf("memory: no object %q to damage", key)
	}
	object.data = bytes.Clone(change(bytes.Clone(object.data)))
	s.objects[key] = object
	return nil
}
