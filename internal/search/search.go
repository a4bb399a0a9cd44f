package search

import (
	"fmt"
	"hash/maphash"
)

// Result is what a search has come to.
type Result struct {
	// States is how many states were seen, Steps how many steps were taken between them.
	States, Steps int
	// Depth is how many steps from the beginning every state was followed, Exhausted that there are no others.
	Depth     int
	Exhausted bool
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
	depth := fmt.Sprintf("depth %d", r.Depth)
	if r.Exhausted {
		depth += " (all there is)"
	}
	return fmt.Sprintf("search: %d states, %s exhausted, %d violations", r.States, depth, violations)
}

// node is a state seen: the step that led to it first, and from where.
type node struct {
	parent int32
	step   step
}

// searcher goes through the states breadth first.
type searcher struct {
	*model
	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
	nodes []node
	buf   []byte
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
	key := [2]uint64{maphash.Bytes(s.seeds[0], s.buf), maphash.Bytes(s.seeds[1], s.buf)}
	if _, ok := s.seen[key]; ok {
		return false
	}
	s.seen[key] = struct{}{}
	return true
}

// reached is a state whose steps are still to be followed.
type reached struct {
	state state
	node  int32
}

func (s *searcher) run() (r Result) {
	first := s.initial()
	s.isNew(&first)
	s.nodes = []node{{parent: -1}}
	level := []reached{{first, 0}}
	for len(level) > 0 {
		if s.cfg.MaxDepth > 0 && r.Depth >= s.cfg.MaxDepth || s.cfg.MaxStates > 0 && len(s.nodes) >= s.cfg.MaxStates {
			r.States = len(s.nodes)
			return r
		}
		var next []reached
		for i := range level {
			from := level[i].node
			s.successors(&level[i].state, func(step step, after *state, problem string) {
				r.Steps++
				if r.Problem != "" || !s.isNew(after) && problem == "" {
					return
				}
				s.nodes = append(s.nodes, node{from, step})
				if problem != "" {
					r.Problem = problem
					return
				}
				next = append(next, reached{*after, int32(len(s.nodes) - 1)})
			})
			if r.Problem != "" {
				r.States = len(s.nodes)
				r.History = s.history()
				return r
			}
		}
		r.Depth++
		level = next
	}
	r.States, r.Exhausted = len(s.nodes), true
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
