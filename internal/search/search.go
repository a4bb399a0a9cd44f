package search

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"unsafe"
)

// Result is what a search has come to.
type Result struct {
	// States is how many states were seen, Steps how many steps were taken between them.
	States, Steps int
	// Depth is how many steps from the beginning every state was followed, Exhausted that there are no others.
	Depth     int
	Exhausted bool
	// Reached says what was reached, and how often: steps by their kind, and decisions by what they came to, each counted
	// once for each of its inputs.
	Reached map[string]int
	// Problem is the first violation found, empty if there is none: none is reached in fewer steps. History tells how it
	// came to it, a line for each step.
	Problem string
	History []string
}

// String says in a line what was searched.
func (r Result) String() string {
	violations := 0
	if r.Problem != "" {
		violations = 1
	}
	return fmt.Sprintf("search: %d states, depth %d exhausted, %d violations", r.States, r.Depth, violations)
}

// node is a state seen: the step that led to it first, and from where.
type node struct {
	parent int32
	step   step
}

// searcher goes through the states breadth first.
type searcher struct {
	*model
	taken [kinds]int
	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
	nodes []node
	buf   []byte
	image []byte
}

// Run searches all that can happen, breadth first, so that the history of what it finds is one of the shortest. The error
// names the field of cfg that is wrong.
func Run(cfg Config) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	s := &searcher{model: newModel(cfg), seen: map[[2]uint64]struct{}{}}
	s.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	return s.run(), nil
}

// isNew notes a state by 128 bits of hash and tells whether it was not seen before.
func (s *searcher) isNew(t *state) bool {
	s.buf = s.encode(s.buf[:0], t)
	if s.cfg.Brokers == mostBrokers && !s.cfg.StepByStep { // B and C are alike: of a state and its mirror image one is enough
		image := mirrored(t)
		s.image = s.encode(s.image[:0], &image)
		if bytes.Compare(s.image, s.buf) < 0 {
			s.buf, s.image = s.image, s.buf
		}
	}
	key := [2]uint64{maphash.Bytes(s.seeds[0], s.buf), maphash.Bytes(s.seeds[1], s.buf)}
	if _, ok := s.seen[key]; ok {
		return false
	}
	s.seen[key] = struct{}{}
	return true
}

// mirrored returns the state with brokers B and C in each other's place.
func mirrored(s *state) state {
	t := *s
	broker := func(b int8) int8 {
		if b > 0 {
			return 3 - b
		}
		return b
	}
	set := func(m uint8) uint8 { return m&1 | m&2<<1 | m&4>>1 }
	for p := range t.parts {
		part := &t.parts[p]
		part.leader, part.isr = broker(part.leader), set(part.isr)
		for e := range part.led {
			part.led[e] = broker(part.led[e])
		}
		part.replicas[1], part.replicas[2] = part.replicas[2], part.replicas[1]
		for b := range part.replicas {
			r := &part.replicas[b]
			r.view = set(r.view)
			r.ends[1], r.ends[2] = r.ends[2], r.ends[1]
		}
	}
	return t
}

// level is the states of one depth, packed: a state is mostly zeros.
type level struct {
	packed []byte
	at     []int // where each ends
	nodes  []int32
}

func (l *level) add(s *state, node int32) {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
	for i := 0; i < len(raw); {
		zeros, more := 0, 0
		for i+zeros < len(raw) && raw[i+zeros] == 0 && zeros < 255 {
			zeros++
		}
		i += zeros
		for i+more < len(raw) && raw[i+more] != 0 && more < 255 {
			more++
		}
		l.packed = append(append(l.packed, byte(zeros), byte(more)), raw[i:i+more]...)
		i += more
	}
	l.at, l.nodes = append(l.at, len(l.packed)), append(l.nodes, node)
}

// get unpacks the state with a number.
func (l *level) get(n int) (s state) {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s))
	from := 0
	if n > 0 {
		from = l.at[n-1]
	}
	for packed, i := l.packed[from:l.at[n]], 0; len(packed) > 0; {
		i += int(packed[0])
		i += copy(raw[i:], packed[2:2+int(packed[1])])
		packed = packed[2+int(packed[1]):]
	}
	return s
}

func (s *searcher) run() (r Result) {
	defer func() {
		r.States, r.Reached = len(s.nodes), s.reached
		for kind, n := range s.taken {
			r.Reached[kindNames[kind]] += n
			r.Steps += n
		}
		r.Reached["eviction"] += s.stores.evicted
	}()
	first := s.initial()
	s.isNew(&first)
	s.nodes = []node{{parent: -1}}
	this := &level{}
	this.add(&first, 0)
	for len(this.nodes) > 0 {
		if s.cfg.MaxDepth > 0 && r.Depth >= s.cfg.MaxDepth || s.cfg.MaxStates > 0 && len(s.nodes) >= s.cfg.MaxStates {
			return r
		}
		next := &level{}
		for i, from := range this.nodes {
			before := this.get(i)
			s.successors(&before, func(step step, after *state, problem string) {
				s.taken[step.kind]++
				if problem == "" {
					problem = s.fell(step, &before, after)
				}
				if r.Problem != "" || !s.isNew(after) && problem == "" {
					return
				}
				s.nodes = append(s.nodes, node{from, step})
				if problem != "" {
					r.Problem = problem
					return
				}
				next.add(after, int32(len(s.nodes)-1))
			})
			if r.Problem != "" {
				r.History = s.history()
				return r
			}
		}
		r.Depth++
		this = next
	}
	r.Exhausted = true
	return r
}

// history tells how the last node was reached: it takes the same steps again.
func (s *searcher) history() []string {
	var steps []step
	for n := int32(len(s.nodes) - 1); s.nodes[n].parent >= 0; n = s.nodes[n].parent {
		steps = append([]step{s.nodes[n].step}, steps...)
	}
	at := s.initial()
	var lines []string
	for i, want := range steps {
		var after state
		found := false
		s.successors(&at, func(step step, to *state, _ string) {
			if !found && step == want {
				after, found = *to, true
			}
		})
		lines = append(lines, fmt.Sprintf("%2d. %s", i+1, s.tell(want, &at, &after)))
		at = after
	}
	return lines
}
