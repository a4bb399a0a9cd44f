package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// crashCases are the cases of RunCrash, group N: what a store that keeps files makes of a file system that fails, and of
// crashes between any two of its calls.
var crashCases = []testCase{
	{
		id: "N1", priority: 1, rule: "W3",
		title: "the order of calls: write, sync the file, give it its name, sync the directory, return",
		costs: "What is acknowledged before it is synced is lost by the next power cut, and a name made before the bytes shows a file of zeros.",
		run: func(c *T) {
			for _, s := range scenes {
				data := c.bytes(2000)
				c.set(s, c.segmentAt(0), c.bytes(1000), c.once(), func(fsys *CrashFS, h *handle) {
					fsys.Fault(nil)
					c.upload(h, c.segmentAt(s.minute), data)
					if problem := orderProblem(fsys, data); problem != "" {
						c.Fatalf("an upload %s: %s; the calls were %v", s.name, problem, fsys.Calls())
					}
				})
			}
		},
	},
	{
		id: "N2", priority: 1, rule: "W3",
		title: "a power cut before any call of a story of two processes: what was acknowledged is there, all else is whole or absent",
		costs: "The leader has published a segment that is gone after a power cut, or a follower takes half a segment for a whole one.",
		run: func(c *T) {
			a, b, d, e, g := c.segmentAt(0), c.segmentAt(0), c.segmentAt(1), c.segmentAt(60), c.newIDAt(2, 0, crashTime)
			taken := c.bytes(800)
			story := []deed{
				{process: 0, id: a, data: c.bytes(999)},
				{process: 0, id: b, data: c.bytes(1)},
				{process: 1, id: c.segmentAt(0), data: c.bytes(700)},
				{process: 1, id: d, data: taken},
				{process: 0, id: d, data: c.bytes(800), refused: true},
				{process: 0, id: d, data: taken},
				{process: 0, id: e, data: c.bytes(500)},
				{process: 1, id: a},
				{process: 1, id: a, data: c.bytes(999)},
				{process: 0, id: g, data: c.bytes(2000)},
			}
			next := c.segmentAt(0)
			for cut := 1; ; cut++ {
				ended, at := c.tell(story, next, cut)
				if ended {
					require.Greater(c, at, 3*len(story), "the store has made hardly a call of the file system")
					return
				}
			}
		},
	},
	{
		id: "N3", priority: 1, rule: "W3",
		title: "the names of new directories are synced, up to the root, whoever has made them",
		costs: "A power cut takes away the directory of a whole hour, with every acknowledged segment in it.",
		run: func(c *T) {
			// The first upload of all.
			data, id := c.bytes(1000), c.segmentAt(0)
			var calls []CrashCall
			c.set(scenes[2], id, nil, c.once(), func(fsys *CrashFS, h *handle) {
				calls = c.callsOf(fsys, func() { c.upload(h, id, data) })
				c.wantDurable(fsys, id, data, "the first upload")
			})
			// The directories are of another process, which was killed somewhere on its way.
			for _, at := range calls {
				situation := fmt.Sprintf("another process was killed before %q, and this one has uploaded beside it", at)
				c.set(scenes[2], id, nil, c.once(), func(fsys *CrashFS, h *handle) {
					killAt(fsys, at.Number)
					_ = h.UploadSegment(c.Context(), id, data)
					fsys.Kill()
					other, beside := c.segmentAt(0), c.bytes(500)
					process := fsys.Process()
					c.on(process, c.once(), situation, func(h *handle) {
						require.NoError(c, h.UploadSegment(c.Context(), other, beside), situation)
						c.wantDurable(process, other, beside, situation)
					})
				})
			}
		},
	},
	{
		id: "N4", priority: 1, rule: "W7",
		title: "ENOSPC, EDQUOT, EIO, EROFS and EMFILE at each call of an upload: the right kind, no residue, and the next try succeeds",
		costs: "A full disk is taken for a slow one and hammered, or each failure leaves a file that fills it further.",
		run: func(c *T) {
			for _, s := range scenes[:2] {
				old, oldData := c.segmentAt(0), c.bytes(1000)
				id, data := c.segmentAt(s.minute), c.bytes(2000)
				var calls []CrashCall
				files := 0
				c.set(s, old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
					files = len(fsys.Files())
					calls = c.callsOf(fsys, func() { c.upload(h, id, data) })
				})
				for _, at := range calls {
					for _, fault := range errorKinds {
						situation := fmt.Sprintf("an upload %s, in which %q fails with %q", s.name, at, fault.errno)
						c.set(s, old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
							failAt(fsys, at, CrashFault{Err: fault.errno}, false)
							err := h.UploadSegment(c.Context(), id, data)
							fsys.Fault(nil)
							c.afterFault(fsys, h, err, fault.errno, fault.kinds, at, id, data, files, situation)
							c.wantWhole(h, old, oldData, situation+": the segment beside it")
						})
					}
				}
			}
		},
	},
	{
		id: "N5", priority: 1, rule: "W3",
		title: "a sync that fails is never ignored, and the file is not trusted after it",
		costs: "The kernel drops the pages that it could not write and calls them clean: what is acknowledged then was never on the disk.",
		run: func(c *T) {
			for _, s := range scenes {
				id, data := c.segmentAt(s.minute), c.bytes(2000)
				old, oldData := c.segmentAt(0), c.bytes(1000)
				var calls []CrashCall
				c.set(s, old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
					calls = c.callsOf(fsys, func() { c.upload(h, id, data) })
				})
				for _, at := range calls {
					if at.Op != "sync" && at.Op != "syncdir" {
						continue
					}
					for _, again := range []bool{false, true} {
						situation := fmt.Sprintf("an upload %s, in which %q fails", s.name, at)
						if again {
							situation += ", and so do all such calls after it"
						}
						c.set(s, old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
							failAt(fsys, at, CrashFault{Err: syscall.EIO}, again)
							err := h.UploadSegment(c.Context(), id, data)
							if again && err == nil {
								c.Fatalf("%s: the upload is acknowledged", situation)
							}
							fsys.Fault(nil)
							if err == nil {
								c.wantDurable(fsys, id, data, situation)
							}
							situation += "; the same upload again"
							require.NoError(c, h.UploadSegment(c.Context(), id, data), situation)
							c.wantDurable(fsys, id, data, situation)
						})
					}
				}
			}
		},
	},
	{
		id: "N7", priority: 1, rule: "W1", needs: needSweep,
		title: "a process is killed before any call of an upload: nothing of it shows, and a sweep removes what it has left",
		costs: "Parts of uploads that died are listed as segments, or fill the disk for ever.",
		run: func(c *T) {
			for _, s := range scenes[:2] {
				old, oldData := c.segmentAt(0), c.bytes(1000)
				id, data := c.segmentAt(s.minute), c.bytes(2000)
				var calls []CrashCall
				c.set(s, old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
					calls = c.callsOf(fsys, func() { c.upload(h, id, data) })
				})
				for _, at := range calls {
					situation := fmt.Sprintf("a process that uploads %s was killed before %q", s.name, at)
					c.set(s, old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
						segments := 1
						killAt(fsys, at.Number)
						_ = h.UploadSegment(c.Context(), id, data)
						fsys.Kill()
						process := fsys.Process()
						c.on(process, c.once(), situation, func(h *handle) {
							present := []walstorage.SegmentID{old}
							if c.wantWholeOrMissing(h, id, data, situation) {
								segments, present = 2, append(present, id)
							}
							c.wantSegments(h, situation, present...)
							process.Advance(3 * c.crash.TemporaryAge)
							situation += ", and what it has left was swept"
							c.sweep(process, situation)
							require.Len(c, process.Files(), segments, "%s: files that are no segments are left", situation)
							c.wantSegments(h, situation, present...)
							require.NoError(c, h.UploadSegment(c.Context(), id, data), "%s: the same upload again", situation)
							c.wantWhole(h, id, data, situation)
							c.wantWhole(h, old, oldData, situation)
						})
					})
				}
			}
		},
	},
	{
		id: "N8", priority: 1, rule: "W3", needs: needSweep,
		title: "a sweep by another process, before any call of an upload, does the upload no harm, however long it takes",
		costs: "A sweeper takes the files of uploads that are only slow, and the leader's segments fail whenever the disk does not keep up.",
		run: func(c *T) {
			for _, s := range scenes[:2] {
				old, oldData := c.segmentAt(0), c.bytes(1000)
				id, data := c.segmentAt(s.minute), c.bytes(2000)
				var calls []CrashCall
				c.set(s, old, oldData, c.retried(), func(fsys *CrashFS, h *handle) {
					calls = c.callsOf(fsys, func() { c.upload(h, id, data) })
				})
				for _, at := range calls {
					for _, late := range []bool{false, true} {
						situation := fmt.Sprintf("another process sweeps before %q of an upload %s", at, s.name)
						if late {
							situation += ", which has taken longer than CrashConfig.TemporaryAge"
						}
						c.set(s, old, oldData, c.retried(), func(fsys *CrashFS, h *handle) {
							var made, swept []CrashCall
							before(fsys, at.Number, func() {
								if late {
									fsys.Advance(3 * c.crash.TemporaryAge)
								}
								made = fsys.Calls()
								swept = c.sweep(fsys.Process(), situation)
							})
							c.upload(h, id, data)
							// A store without locks may go by the age alone, if it survives that.
							if late {
								c.wantNoneRemoved(made, "lock", swept, situation+": it has removed what a process holds locked")
							} else {
								c.wantNoneRemoved(made, "create", swept, situation+": it has removed what is younger than CrashConfig.TemporaryAge")
							}
							c.wantDurable(fsys, id, data, situation)
							c.wantDurable(fsys, old, oldData, situation)
						})
					}
				}
			}
		},
	},
	{
		id: "N9", priority: 1, rule: "W2",
		title: "the names of temporaries are unique: no two uploads ever make the same file, on one handle or on several",
		costs: "Two uploads write to one file, and one of them is acknowledged with the bytes of the other.",
		run: func(c *T) {
			// Many at once, on several handles.
			fsys := NewCrashFS()
			processes := []*CrashFS{fsys, fsys.Process(), fsys.Process()}
			var handles []*handle
			for _, process := range processes {
				h, err := c.tryOn(process, c.once())
				require.NoError(c, err, "opening the store")
				defer func() { _ = h.Close() }()
				process.Fault(nil)
				handles = append(handles, h)
			}
			const uploads, size = 90, 300
			ids, data := make([]walstorage.SegmentID, uploads), c.bytes(uploads*size)
			for i := range ids {
				ids[i] = c.segmentAt(0)
			}
			c.together(uploads, func(i int) {
				if err := handles[i%len(handles)].UploadSegment(c.Context(), ids[i], data[i*size:(i+1)*size]); err != nil {
					c.Errorf("upload %d of %d at once: %v", i, uploads, err)
				}
			})
			made := make(map[string]bool)
			for _, process := range processes {
				for _, call := range process.Calls() {
					if call.Op != "create" {
						continue
					}
					if made[call.Name] {
						c.Fatalf("two uploads have made the file %s", call.Name)
					}
					made[call.Name] = true
				}
			}
			// One within another, at each of its calls.
			c.interleave(func(calls []CrashCall, at CrashCall, fsys *CrashFS, h, other *handle, situation string) {
				id, beside := c.segmentAt(0), c.segmentAt(0)
				one, two := c.bytes(2000), c.bytes(1500)
				before(fsys, at.Number, func() {
					require.NoError(c, other.UploadSegment(c.Context(), beside, two), "%s: the upload of the other process", situation)
				})
				c.upload(h, id, one)
				c.wantDurable(fsys, id, one, situation)
				c.wantDurable(fsys, beside, two, situation)
			})
		},
	},
	{
		id: "N10", priority: 1, rule: "W2",
		title: "two processes, one within any call of the other: one create wins (C4), the list has it (E7), a delete beside it does no harm (F9)",
		costs: "What holds in one process by its locks does not hold between two, and a segment is replaced or an upload fails.",
		run: func(c *T) {
			// A create of the same segment with other bytes.
			c.interleave(func(_ []CrashCall, at CrashCall, fsys *CrashFS, h, other *handle, situation string) {
				id, one, two := c.segmentAt(0), c.bytes(2000), c.bytes(2000)
				var otherErr error
				called := false
				before(fsys, at.Number, func() {
					called = true
					otherErr = other.UploadSegment(c.Context(), id, two)
				})
				err := h.UploadSegment(c.Context(), id, one)
				require.True(c, called, situation)
				switch {
				case err == nil && errors.Is(otherErr, walstorage.ErrSegmentExists):
					c.wantDurable(fsys, id, one, situation+": the other's create was refused")
				case otherErr == nil && errors.Is(err, walstorage.ErrSegmentExists):
					c.wantDurable(fsys, id, two, situation+": the other's create has won")
				default:
					c.Fatalf("%s with other bytes for the same segment: one create gives %v, the other %v", situation, err, otherErr)
				}
				found, err := c.list(other, walstorage.ListOptions{})
				require.NoError(c, err, situation)
				require.Contains(c, found, id, situation)
			})
			// A delete of the only other segment in the directory.
			c.interleave(func(_ []CrashCall, at CrashCall, fsys *CrashFS, h, other *handle, situation string) {
				id, data := c.segmentAt(7), c.bytes(2000)
				gone := c.segmentAt(7)
				c.upload(other, gone, c.bytes(100))
				before(fsys, at.Number, func() {
					require.NoError(c, other.DeleteSegments(c.Context(), gone), "%s: the delete of the other process", situation)
				})
				require.NoError(c, h.UploadSegment(c.Context(), id, data), "%s, which deletes the last segment beside it", situation)
				c.wantDurable(fsys, id, data, situation)
			})
		},
	},
	{
		id: "N11", priority: 2, rule: "W7",
		title: "ESTALE at each call of a fetch, a stat and a list is tried again or is ErrUnavailable, never a missing segment",
		costs: "A network file system that has lost a handle makes followers believe that a segment is gone.",
		run: func(c *T) {
			c.looksFail([]syscall.Errno{syscall.ESTALE}, walstorage.ErrUnavailable)
		},
	},
	{
		id: "N12", priority: 2, rule: "W2",
		title: "a network file system loses the answer to a call that makes a name and says EEXIST of the caller's own: the upload succeeds",
		costs: "Segments that are stored are reported as another's, and the leader gives them up.",
		run: func(c *T) {
			id, data := c.segmentAt(0), c.bytes(2000)
			old, oldData := c.segmentAt(0), c.bytes(1000)
			var calls []CrashCall
			c.set(scenes[0], old, oldData, c.once(), func(fsys *CrashFS, h *handle) {
				calls = c.callsOf(fsys, func() { c.upload(h, id, data) })
			})
			for _, at := range calls {
				if !slices.Contains([]string{"create", "link", "mkdir"}, at.Op) {
					continue
				}
				situation := fmt.Sprintf("%q is carried out and answered with EEXIST", at)
				c.set(scenes[0], old, oldData, c.retried(), func(fsys *CrashFS, h *handle) {
					failAt(fsys, at, CrashFault{Err: syscall.EEXIST, Done: true}, false)
					require.NoError(c, h.UploadSegment(c.Context(), id, data), situation)
					c.wantDurable(fsys, id, data, situation)
					fsys.Fault(nil)
					c.wantKind(h.UploadSegment(c.Context(), id, c.bytes(2000)), walstorage.ErrSegmentExists, situation+"; other bytes")
				})
			}
		},
	},
	{
		id: "N14", priority: 2, rule: "W7",
		title: "EACCES and EPERM at each call of an upload, a fetch, a stat, a list and a delete: ErrAccessDenied, never a missing segment",
		costs: "A directory of another owner looks empty: every follower falls back across zones for good, and a sweeper finds nothing to delete.",
		run: func(c *T) {
			denied := []syscall.Errno{syscall.EACCES, syscall.EPERM}
			c.looksFail(denied, walstorage.ErrAccessDenied)
			old, data := c.segmentAt(0), c.bytes(1000)
			for name, change := range map[string]func(h *handle, id walstorage.SegmentID) error{
				"an upload": func(h *handle, id walstorage.SegmentID) error { return h.UploadSegment(c.Context(), id, data) },
				"a delete":  func(h *handle, _ walstorage.SegmentID) error { return h.DeleteSegments(c.Context(), old) },
			} {
				id := c.segmentAt(1)
				var calls []CrashCall
				c.set(scenes[1], old, data, c.once(), func(fsys *CrashFS, h *handle) {
					calls = c.callsOf(fsys, func() { require.NoError(c, change(h, id), name) })
				})
				for _, at := range calls {
					for _, errno := range denied {
						situation := fmt.Sprintf("%s in which %q fails with %q", name, at, errno)
						c.set(scenes[1], old, data, c.once(), func(fsys *CrashFS, h *handle) {
							failAt(fsys, at, CrashFault{Err: errno}, false)
							err := change(h, id)
							fsys.Fault(nil)
							if err != nil {
								c.wantErrno(err, errno, []error{walstorage.ErrAccessDenied}, situation)
							}
							if there := c.wantWholeOrMissing(h, id, data, situation); err == nil && name == "an upload" {
								require.True(c, there, "%s: the upload is acknowledged and the segment is not there", situation)
							}
							if there := c.wantWholeOrMissing(h, old, data, situation); err == nil && name == "a delete" {
								require.False(c, there, "%s: the delete is acknowledged and the segment is there", situation)
							}
						})
					}
				}
			}
		},
	},
	{
		id: "N15", priority: 2, rule: "W2",
		title: "a file system without hard links is refused, on opening or by each upload, or creates are atomic there in another way",
		costs: "A store that renames instead replaces what another broker has written.",
		run: func(c *T) {
			for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS, syscall.ENOTSUP} {
				situation := fmt.Sprintf("a file system in which every link fails with %q", errno)
				fsys := NewCrashFS()
				fsys.Fault(func(call CrashCall) CrashFault {
					if call.Op == "link" {
						return CrashFault{Err: errno}
					}
					return CrashFault{}
				})
				h, err := c.tryOn(fsys, c.once())
				if err != nil {
					continue
				}
				id, data := c.segmentAt(0), c.bytes(100)
				if err := h.UploadSegment(c.Context(), id, data); err == nil {
					c.wantDurable(fsys, id, data, situation)
					c.wantKind(h.UploadSegment(c.Context(), id, c.bytes(100)), walstorage.ErrSegmentExists, situation+": other bytes")
					c.wantWhole(h, id, data, situation+", after other bytes were refused")
				} else {
					c.wantMissing(h, id, situation+", after an upload that failed")
				}
				require.NoError(c, h.Close(), situation)
			}
		},
	},
	{
		id: "N16", priority: 2, rule: "W3",
		title: "a file system that cannot sync files or directories is refused, on opening or by each upload",
		costs: "Everything seems to work, and nothing survives a power cut.",
		run: func(c *T) {
			for _, op := range []string{"sync", "syncdir"} {
				for _, errno := range []syscall.Errno{syscall.ENOTSUP, syscall.EINVAL} {
					situation := fmt.Sprintf("a file system in which every %s fails with %q", op, errno)
					fsys := NewCrashFS()
					fsys.Fault(func(call CrashCall) CrashFault {
						if call.Op == op {
							return CrashFault{Err: errno}
						}
						return CrashFault{}
					})
					h, err := c.tryOn(fsys, c.once())
					if err != nil {
						continue
					}
					require.Error(c, h.UploadSegment(c.Context(), c.segmentAt(0), c.bytes(100)), "%s: an upload", situation)
					require.NoError(c, h.Close(), situation)
				}
			}
		},
	},
	{
		id: "N18", priority: 2, rule: "W8",
		title: "a disk that does not answer a sync holds up no cancel, and the handle can be used when it answers",
		costs: "One stalled disk stops a broker that wants to give up its partitions.",
		run: func(c *T) {
			for _, op := range []string{"sync", "syncdir"} {
				c.set(scenes[1], c.segmentAt(0), c.bytes(10), c.once(), func(fsys *CrashFS, h *handle) {
					answer, stalled := make(chan struct{}), make(chan struct{})
					release, reached := sync.OnceFunc(func() { close(answer) }), sync.OnceFunc(func() { close(stalled) })
					defer release()
					fsys.Fault(func(call CrashCall) CrashFault {
						if call.Op == op {
							reached()
							<-answer
						}
						return CrashFault{}
					})
					id, data := c.segmentAt(1), c.bytes(2000)
					ctx, cancel := context.WithCancel(c.Context())
					defer cancel()
					context.AfterFunc(c.Context(), reached)
					go func() {
						<-stalled
						cancel()
					}()
					var err error
					situation := "an upload that was cancelled while a " + op + " stalls"
					if c.returns(situation, func() { err = h.UploadSegment(ctx, id, data) }) && err != nil {
						c.wantKind(err, context.Canceled, situation)
					}
					release()
					fsys.Fault(nil)
					c.upload(h, id, data)
					c.wantDurable(fsys, id, data, "the same upload once the disk has answered")
				})
			}
		},
	},
}

// tell lets two processes on an empty machine do their deeds until the power is cut before the call given of both
// together, and looks at what every kind of loss leaves. It tells whether the story has ended before, and after how many
// calls.
func (c *T) tell(story []deed, next walstorage.SegmentID, cut int) (ended bool, at int) {
	var calls atomic.Int64
	var last atomic.Pointer[CrashCall]
	machine := NewCrashFS()
	processes := []*CrashFS{machine, machine.Process()}
	off := func() bool { return calls.Load() >= int64(cut) }
	for _, process := range processes {
		process.Fault(func(call CrashCall) CrashFault {
			if calls.Add(1) >= int64(cut) {
				last.CompareAndSwap(nil, &call)
				for _, p := range processes {
					p.Kill()
				}
			}
			return CrashFault{}
		})
	}
	book := ledger{certain: make(map[walstorage.SegmentID][]byte), unknown: make(map[walstorage.SegmentID][][]byte)}
	handles := make([]*handle, len(processes))
	for i, process := range processes {
		h, err := c.tryOn(process, c.once())
		if err != nil {
			require.True(c, off(), "opening the store where nothing fails: %v", err)
			break
		}
		defer func() { _ = h.Close() }()
		handles[i] = h
	}
	for i, d := range story {
		h := handles[d.process]
		if h == nil {
			break
		}
		var err error
		if d.data != nil {
			err = h.UploadSegment(c.Context(), d.id, d.data)
		} else {
			err = h.DeleteSegments(c.Context(), d.id)
		}
		if !off() && d.refused {
			require.ErrorIs(c, err, walstorage.ErrSegmentExists, "deed %d where nothing fails", i)
		} else if !off() {
			require.NoError(c, err, "deed %d where nothing fails", i)
		}
		book.note(d, err, off())
		if off() {
			break
		}
	}
	situation := "a power cut after the whole story"
	if call := last.Load(); call != nil {
		situation = fmt.Sprintf("a power cut before call %d, %q", cut, call)
	}
	for _, loss := range losses {
		situation := fmt.Sprintf("%s, in which %s (seed %d)", situation, loss.loss, loss.seed)
		c.on(machine.Crash(loss.loss, c.seed+loss.seed), c.once(), situation, func(h *handle) {
			if problem := book.problem(c.Context(), h, c); problem != "" {
				c.Fatalf("%s: %s", situation, problem)
			}
			c.upload(h, next, []byte("life goes on"))
			c.wantWhole(h, next, []byte("life goes on"), situation)
		})
	}
	return !off(), int(calls.Load())
}

// afterFault checks what an upload has left in which one call failed.
func (c *T) afterFault(fsys *CrashFS, h *handle, err error, errno syscall.Errno, kinds []error, at CrashCall,
	id walstorage.SegmentID, data []byte, files int, situation string,
) {
	there := c.wantWholeOrMissing(h, id, data, situation)
	if err != nil {
		c.wantErrno(err, errno, kinds, situation)
	} else {
		require.True(c, there, "%s: the upload is acknowledged and the segment is not there", situation)
		c.wantDurable(fsys, id, data, situation)
	}
	if there {
		files++
	}
	if left := slices.Sorted(maps.Keys(fsys.Files())); len(left) != files && at.Op != "remove" {
		c.Errorf("%s: %d files are left, not %d: %v", situation, len(left), files, left)
	}
	require.NoError(c, h.UploadSegment(c.Context(), id, data), "%s: the same upload again", situation)
	c.wantDurable(fsys, id, data, situation+"; the same upload again")
}

// interleave calls f for each call of an upload into a directory that is there, on a new machine each time: h is the
// handle of the process fsys, and other that of another process.
func (c *T) interleave(f func(calls []CrashCall, at CrashCall, fsys *CrashFS, h, other *handle, situation string)) {
	var calls []CrashCall
	old, data := c.segmentAt(0), c.bytes(1000)
	c.set(scenes[0], old, data, c.retried(), func(fsys *CrashFS, h *handle) {
		calls = c.callsOf(fsys, func() { c.upload(h, c.segmentAt(0), c.bytes(2000)) })
	})
	for _, at := range calls {
		situation := fmt.Sprintf("an upload that another process comes between before its call %d, such as %q", at.Number, at)
		c.set(scenes[0], old, data, c.retried(), func(fsys *CrashFS, h *handle) {
			c.on(fsys.Process(), c.retried(), situation, func(other *handle) {
				f(calls, at, fsys, h, other, situation)
			})
		})
	}
}

// sweep sweeps once and returns the calls of that.
func (c *T) sweep(process *CrashFS, situation string) []CrashCall {
	require.NoError(c, c.crash.Sweep(c.Context(), process, c.once()), "%s: CrashConfig.Sweep", situation)
	return process.Calls()
}

// wantNoneRemoved checks that a sweep has removed nothing that an upload has done op with.
func (c *T) wantNoneRemoved(upload []CrashCall, op string, sweep []CrashCall, problem string) {
	for _, call := range sweep {
		if call.Op == "remove" && call.Err == nil && slices.ContainsFunc(upload, func(made CrashCall) bool {
			return made.Op == op && made.Name == call.Name && made.Err == nil
		}) {
			c.Errorf("%s: %s", problem, call.Name)
		}
	}
}

// looksFail lets each call of a fetch, a stat and a list fail in turn: the look is tried again and right, or its error is of
// the kind given.
func (c *T) looksFail(errnos []syscall.Errno, kind error) {
	id, data := c.segmentAt(0), c.bytes(1000)
	for name, look := range map[string]func(h *handle) error{
		"a fetch": func(h *handle) error {
			dst := make([]byte, len(data))
			err := h.FetchSegment(c.Context(), id, 0, dst)
			if err == nil {
				c.wantBytes(data, dst, "a fetch in which a call failed")
			}
			return err
		},
		"a stat": func(h *handle) error {
			info, err := h.StatSegment(c.Context(), id)
			if err == nil {
				require.EqualValues(c, len(data), info.Size, "a stat in which a call failed")
			}
			return err
		},
		"a list": func(h *handle) error {
			found, err := c.list(h, walstorage.ListOptions{})
			if err == nil {
				require.Len(c, found, 1, "a list in which a call failed, and that ends without an error")
			}
			return err
		},
	} {
		c.set(scenes[0], id, data, c.once(), func(fsys *CrashFS, h *handle) {
			calls := c.callsOf(fsys, func() { require.NoError(c, look(h), name) })
			for _, at := range calls {
				if at.Op == "close" {
					continue // nothing was written
				}
				for _, errno := range errnos {
					failAt(fsys, at, CrashFault{Err: errno}, false)
					if err := look(h); err != nil {
						c.wantErrno(err, errno, []error{kind}, fmt.Sprintf("%s in which %q fails", name, at))
					}
				}
			}
		})
	}
}
