package leader_test

import (
	"context"
	"sync"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// scripted is a log some of whose answers a test makes up: those of the functions that are set, for as long as they are.
type scripted struct {
	*memory.Log
	mu    sync.Mutex
	read  func(ctx context.Context, offset int64, dst []byte) (int, error)
	end   func() (int64, int32)
	start func() int64
	reads int
}

var _ leader.Log = (*scripted)(nil)

func newScripted() *scripted { return &scripted{Log: memory.New(memory.Config{})} }

// script changes the answers.
func (s *scripted) script(change func(s *scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *scripted) Read(ctx context.Context, offset int64, dst []byte) (int, error) {
	s.mu.Lock()
	read := s.read
	s.reads++
	s.mu.Unlock()
	if read != nil {
		return read(ctx, offset, dst)
	}
	return s.Log.Read(ctx, offset, dst)
}

func (s *scripted) readCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *scripted) End() (int64, int32) {
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	if end != nil {
		return end()
	}
	return s.Log.End()
}

func (s *scripted) Start() int64 {
	s.mu.Lock()
	start := s.start
	s.mu.Unlock()
	if start != nil {
		return start()
	}
	return s.Log.Start()
}

// leadScripted begins to lead partition p over a scripted log in epoch 1.
func (g *rig) leadScripted(p int32) (*part, *scripted) {
	g.t.Helper()
	s := newScripted()
	start, err := s.Lead(1)
	if err != nil {
		g.t.Fatal(err)
	}
	lead, err := g.up.Lead(partitionOf(p), 1, start, s)
	if err != nil {
		g.t.Fatal(err)
	}
	return &part{g: g, tp: partitionOf(p), log: s.Log, lead: lead, epoch: 1}, s
}
