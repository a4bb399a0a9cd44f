package objectstore

import "sync"

// maxForeign bounds how many foreign keys are remembered, and so how many are reported.
const maxForeign = 1000

// foreign remembers which objects that are no segments have been reported: each once, so that an operator learns of what
// lies in the store by mistake, and is not told every minute.
type foreign struct {
	mu       sync.Mutex
	reported map[string]struct{}
}

// report tells the logger and the hook of a key that is no segment's.
func (f *foreign) report(m *Manager, key string) {
	f.mu.Lock()
	_, known := f.reported[key]
	if known || len(f.reported) >= maxForeign {
		f.mu.Unlock()
		return
	}
	if f.reported == nil {
		f.reported = make(map[string]struct{})
	}
	f.reported[key] = struct{}{}
	f.mu.Unlock()
	m.cfg.Logger.Warn("an object in the segments' place is no segment: it is passed over and left alone", "key", key)
	if hook := m.cfg.Hooks.ForeignObject; hook != nil {
		hook(key)
	}
}
