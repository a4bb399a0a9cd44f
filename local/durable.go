//go:build unix

package local

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"time"
)

// maxDurableDirs is the number of directories remembered at which those that have expired are forgotten: an uploader
// needs one more each minute.
const maxDurableDirs = 1024

// durableDirs remembers the directories whose own name, and whose parents' up to the root, this process has made
// durable. That mkdir said "exists" is not enough (N3): whoever made the directory may not have synced it yet, and may
// never do so.
//
// An entry expires after half of TemporaryAge, because a directory can be pruned and made again by others, who then have
// not synced it. A prune needs a directory that nothing has touched for four times that long, and whoever adds an entry
// has just made a file in that directory, so no entry outlives what it speaks of.
type durableDirs struct {
	ttl    time.Duration
	mu     *sync.Mutex
	synced map[string]time.Time
}

func newDurableDirs(ttl time.Duration) durableDirs {
	return durableDirs{ttl: ttl, mu: new(sync.Mutex), synced: make(map[string]time.Time)}
}

func (s durableDirs) has(dir string) bool {
	if dir == "." {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.synced[dir]
	return known && time.Since(since) < s.ttl
}

func (s durableDirs) add(dirs []string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.synced) > maxDurableDirs {
		for dir, added := range s.synced {
			if time.Since(added) >= s.ttl {
				delete(s.synced, dir)
			}
		}
	}
	for _, dir := range dirs {
		s.synced[dir] = since
	}
}

// forget drops the directory and all above it, one of which has turned out not to be there.
func (s durableDirs) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; dir != "."; dir = path.Dir(dir) {
		delete(s.synced, dir)
	}
}

// undurable returns dir and those above it that are not known to be durable, from the top down.
func (d *Driver) undurable(dir string) []string {
	if d.durable.has(dir) {
		return nil
	}
	var dirs []string
	for end := range len(dir) + 1 {
		if end < len(dir) && dir[end] != '/' {
			continue
		}
		if part := dir[:end]; !d.durable.has(part) {
			dirs = append(dirs, part)
		}
	}
	return dirs
}

// makeDirs makes the directories that are missing among dirs.
func (d *Driver) makeDirs(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.fs.Mkdir(dir, d.dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// syncNames makes the names of dirs durable, by a sync of each one's parent, from the top down (N3). The caller holds
// a file in the last of them, so that none can be pruned and made anew meanwhile.
//
// A failed sync is never followed by trust: no entry is added, and the call fails. That the next call asks again is
// right for directories: where a name could not be written, local file systems stop writing altogether, and network
// file systems answer for each call. It would be wrong for a file's bytes, which the kernel may drop and then call
// clean: those are written again, to another file (N5).
func (d *Driver) syncNames(dirs []string) error {
	since := time.Now()
	for _, dir := range dirs {
		if err := d.fs.SyncDir(path.Dir(dir)); err != nil {
			return err
		}
	}
	d.durable.add(dirs, since)
	return nil
}
