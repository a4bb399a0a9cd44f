package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// crashTime is when the segments of the cases of group N are made.
var crashTime = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

// segmentAt returns a new id of broker 1 in the minute given of the hour.
func (c *T) segmentAt(minute int) walstorage.SegmentID {
	return c.newIDAt(1, 0, crashTime.Add(time.Duration(minute)*time.Minute))
}

// once is the place of all handles of the cases of group N. Calls are made once, so that a fault is not hidden by a
// second try; retried is for those cases that hold a call to what it comes to in the end.
func (c *T) once() objectstore.Config {
	store := c.storage.home.config()
	store.MaxAttempts = 1
	return store
}

func (c *T) retried() objectstore.Config { return c.storage.home.config() }

// tryOn opens a handle on a file system, or returns the error of trying.
func (c *T) tryOn(fsys *CrashFS, store objectstore.Config) (*handle, error) {
	m, err := c.crash.Open(c, fsys, store)
	if err != nil {
		return nil, err
	}
	require.NotNil(c, m, "CrashConfig.Open returned nil")
	return &handle{WalStorageManager: m, c: c}, nil
}

// on calls f with a handle on a file system, and closes it.
func (c *T) on(fsys *CrashFS, store objectstore.Config, situation string, f func(h *handle)) {
	h, err := c.tryOn(fsys, store)
	require.NoError(c, err, "%s: opening the store", situation)
	defer func() { _ = h.Close() }()
	f(h)
}

// losses are the power cuts that each moment is tried with.
var losses = []struct {
	loss Loss
	seed uint64
}{{LoseUnsynced, 0}, {LoseNothing, 0}, {LoseNames, 0}, {LoseBytes, 0}, {LoseSome, 1}, {LoseSome, 2}, {LoseSome, 3}}

// wantDurable checks that the segment is there, whole, whatever a power cut at this moment takes.
func (c *T) wantDurable(fsys *CrashFS, id walstorage.SegmentID, data []byte, situation string) {
	for _, cut := range losses[:4] {
		after := situation + ", then a power cut in which " + cut.loss.String()
		c.on(fsys.Crash(cut.loss, cut.seed), c.once(), after, func(h *handle) {
			c.wantWhole(h, id, data, after)
		})
	}
}

// wantSegments checks that lists hold exactly the segments given.
func (c *T) wantSegments(h *handle, situation string, ids ...walstorage.SegmentID) {
	found, err := c.list(h, walstorage.ListOptions{})
	require.NoError(c, err, "%s: ListSegments", situation)
	for _, id := range ids {
		require.Contains(c, found, id, "%s: the list lacks a segment that is there", situation)
	}
	require.Len(c, found, len(ids), "%s: the list holds what is no segment", situation)
}

// callsOf returns the calls that do makes on a file system, each of which is a moment to fail or to stop at.
func (c *T) callsOf(fsys *CrashFS, do func()) []CrashCall {
	fsys.Fault(nil)
	do()
	return fsys.Calls()
}

// failAt makes one call of a process fail, and those after it of the same kind if again is set.
func failAt(fsys *CrashFS, at CrashCall, fault CrashFault, again bool) {
	fsys.Fault(func(call CrashCall) CrashFault {
		if call.Number == at.Number || again && call.Number > at.Number && call.Op == at.Op {
			return fault
		}
		return CrashFault{}
	})
}

// killAt kills a process before one of its calls.
func killAt(fsys *CrashFS, number int) {
	fsys.Fault(func(call CrashCall) CrashFault {
		if call.Number >= number {
			fsys.Kill()
		}
		return CrashFault{}
	})
}

// before has f called before one call of a process, which waits for it.
func before(fsys *CrashFS, number int, f func()) {
	fsys.Fault(func(call CrashCall) CrashFault {
		if call.Number == number {
			f()
		}
		return CrashFault{}
	})
}

// scene is a file system with an old segment on it, and what the next upload stores: in the same directories, or in
// new ones.
type scene struct {
	name   string
	minute int
	empty  bool // there is no old segment, and nothing else
}

var scenes = []scene{{"into a directory that is there", 0, false}, {"into a new directory", 1, false}, {"into an empty root", 0, true}}

// set makes a scene anew: a process whose handle has stored the old segment.
func (c *T) set(s scene, old walstorage.SegmentID, data []byte, store objectstore.Config, act func(fsys *CrashFS, h *handle)) {
	fsys := NewCrashFS()
	c.on(fsys, store, "an empty file system", func(h *handle) {
		if !s.empty {
			require.NoError(c, h.UploadSegment(c.Context(), old, data), "storing a segment where nothing fails")
		}
		act(fsys, h)
	})
}

// errorKinds are the errors of a file system that every store must tell, with the kinds that a caller may be given (W7).
// EIO may stay unclassified: it is a broken disk, or a network file system whose server has not answered.
var errorKinds = []struct {
	errno syscall.Errno
	kinds []error
}{
	{syscall.ENOSPC, []error{walstorage.ErrNoSpace}},
	{syscall.EDQUOT, []error{walstorage.ErrNoSpace}},
	{syscall.EIO, []error{walstorage.ErrUnavailable, nil}},
	{syscall.EROFS, []error{walstorage.ErrAccessDenied}},
	{syscall.EMFILE, []error{walstorage.ErrUnavailable}},
}

// wantErrno checks the kind of an error, and that the system's own is behind it.
func (c *T) wantErrno(err error, errno syscall.Errno, kinds []error, situation string) {
	if !slices.Contains(kinds, walstorage.KindOf(err)) {
		c.Errorf("%s: error %q is of kind %v, want one of %v", situation, err, walstorage.KindOf(err), kinds)
	}
	var found syscall.Errno
	if !errors.As(err, &found) || found != errno {
		c.Errorf("%s: error %q does not hold the system's own, %q", situation, err, errno)
	}
}

// orderProblem judges by the record of calls whether an upload of data that has returned was written, synced, named, and
// its directory synced, in this order.
func orderProblem(fsys *CrashFS, data []byte) string {
	calls := fsys.Calls()
	last := func(op, name string, before int) int {
		for i := before - 1; i >= 0; i-- {
			if calls[i].Op == op && calls[i].Name == name && calls[i].Err == nil {
				return i
			}
		}
		return -1
	}
	found := false
	for name, content := range fsys.Files() {
		if !bytes.Contains(content, data) {
			continue
		}
		found = true
		named := max(last("link", name, len(calls)), last("rename", name, len(calls)))
		if named < 0 {
			return "the file " + name + " is written under the name under which it is found, so a reader can find a part of it"
		}
		temporary := calls[named].From
		written, synced := last("write", temporary, len(calls)), last("sync", temporary, named)
		switch {
		case written > named:
			return fmt.Sprintf("the file is written to after its name is made by %q", calls[named])
		case synced < 0 || synced < written:
			return fmt.Sprintf("the file is not synced after its last write when its name is made by %q", calls[named])
		case last("syncdir", path.Dir(name), len(calls)) < named:
			return fmt.Sprintf("the directory is not synced after %q", calls[named])
		}
	}
	if !found {
		return "no file holds the bytes of the segment"
	}
	return ""
}

// deed is one call of the story of N2.
type deed struct {
	process int
	id      walstorage.SegmentID
	data    []byte // nil is a delete
	refused bool   // by ErrSegmentExists
}

// ledger is what must and what may be there after a crash.
type ledger struct {
	certain map[walstorage.SegmentID][]byte
	unknown map[walstorage.SegmentID][][]byte
}

// note enters how a deed ended. What returned after the process was killed has told nobody anything.
func (l *ledger) note(d deed, err error, killed bool) {
	told := err == nil && !killed
	switch {
	case d.data != nil && told:
		l.certain[d.id] = d.data
	case d.data != nil:
		l.unknown[d.id] = append(l.unknown[d.id], d.data)
	default:
		// Deletes need not be durable: the bytes may be back after a power cut.
		if data, known := l.certain[d.id]; known {
			l.unknown[d.id] = append(l.unknown[d.id], data)
		}
		delete(l.certain, d.id)
	}
}

// problem says what of the ledger does not hold on a file system after a crash, "" if all does.
func (l *ledger) problem(ctx context.Context, h *handle, c *T) string {
	for id, data := range l.certain {
		switch there, problem := wholeOrMissing(ctx, h, id, data); {
		case problem != "":
			return fmt.Sprintf("segment %s, which was acknowledged: %s", id, problem)
		case !there:
			return fmt.Sprintf("segment %s was acknowledged and is lost", id)
		}
	}
	for id, contents := range l.unknown {
		if _, known := l.certain[id]; known {
			continue
		}
		problem := ""
		for _, data := range contents {
			if _, problem = wholeOrMissing(ctx, h, id, data); problem == "" {
				break
			}
		}
		if problem != "" {
			return fmt.Sprintf("segment %s is neither absent nor whole: %s", id, problem)
		}
	}
	found, err := c.list(h, walstorage.ListOptions{})
	if err != nil {
		return fmt.Sprintf("ListSegments: %v", err)
	}
	for id := range l.certain {
		if _, listed := found[id]; !listed {
			return fmt.Sprintf("segment %s was acknowledged and is not listed", id)
		}
	}
	for id := range found {
		if _, known := l.certain[id]; !known && l.unknown[id] == nil {
			return fmt.Sprintf("segment %s is listed and was never stored", id)
		}
	}
	return ""
}
