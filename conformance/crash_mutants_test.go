package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// crashMutant is a store of files that is wrong in one way.
type crashMutant struct {
	name   string
	caught string // the case named for it: it must fail
	also   string // what fails, or may, for the same reason
	flaws  fileFlaws
}

var crashMutants = []crashMutant{
	{"the directory is not synced", "N1", "N2 N3 N4 N5 N8 N9 N10 N12 N16 N18", fileFlaws{dirNotSynced: true}},
	{"the directories above are not synced", "N3", "N2 N4 N5 N7 N8 N9 N10 N12 N16 N18", fileFlaws{parentsNotSynced: true}},
	{"directories that are there count as durable", "N3", "N2 N4 N5 N8 N18", fileFlaws{trustsOthersDirs: true}},
	{"temporaries have one name", "N9", "N2 N3 N7 N10", fileFlaws{fixedTemporary: true}},
	{"a delete removes the directory that it empties", "N10", "N2", fileFlaws{prunesOnDelete: true}},
	{"a rename replaces what is there", "N10", "N2", fileFlaws{renames: true}},
	{"acknowledged before the file is synced", "N1", "N2 N3 N4 N5 N8 N9 N10 N12 N16 N18", fileFlaws{acksBeforeSync: true}},
	{"a sync that fails is ignored", "N5", "N4 N16 N18", fileFlaws{ignoresSyncError: true}},
	{"a sync that fails is tried again on the same file", "N5", "N4", fileFlaws{syncsAgain: true}},
	{"the segment is written under its own name", "N1", "N2 N3 N4 N5 N7 N8 N10 N12 N14 N18", fileFlaws{writesInPlace: true}},
	{"an upload that fails leaves its temporary", "N4", "", fileFlaws{leavesTemporary: true}},
	{"a full disk is reported as unavailable", "N4", "", fileFlaws{fullIsUnavailable: true}},
	{"temporaries look like segments", "N7", "N2 N4", fileFlaws{temporaryIsSegment: true}},
	{"temporaries are never swept", "N7", "", fileFlaws{sweepsNothing: true}},
	{"a sweep takes temporaries of any age", "N8", "", fileFlaws{sweepsAll: true}},
	{"a sweep takes temporaries that are locked", "N8", "", fileFlaws{sweepsLocked: true}},
	{"a stale handle is a missing segment", "N11", "", fileFlaws{staleIsMissing: true}},
	{"a refusal is a missing segment", "N14", "", fileFlaws{deniedIsMissing: true}},
	{"a rename takes the place of a link that cannot be made", "N15", "", fileFlaws{renamesWithoutLinks: true}},
	{"exists is told before the directory is synced", "N5", "N4 N12 N18", fileFlaws{existsUnsynced: true}},
	{"a lost answer to the create of a temporary is final", "N12", "", fileFlaws{existsIsFinal: true}},
	{"a sync cannot be given up", "N18", "", fileFlaws{waitsForSync: true}},
}

// TestCrashMutants shows that RunCrash can fail: each wrong store fails the case named for it and none outside its set.
func TestCrashMutants(t *testing.T) {
	var survived, alarms, caught atomic.Int64
	var idle sync.Map // the cases that no wrong store has failed
	for _, tc := range crashCases {
		idle.Store(tc.id, true)
	}
	t.Run("all", func(t *testing.T) {
		for i, m := range crashMutants {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				if raceDetector && i%4 != 0 {
					t.Skip("under the race detector every fourth of the wrong stores is run, for the time that it takes")
				}
				failed := runCrashMutant(t, fileConfig(m.flaws))
				if _, ok := failed[m.caught]; ok {
					caught.Add(1)
				} else {
					survived.Add(1)
					t.Errorf("survived: %s does not fail", m.caught)
				}
				for id, texts := range failed {
					idle.Delete(id)
					if id != m.caught && !slices.Contains(strings.Fields(m.also), id) {
						alarms.Add(1)
						t.Errorf("false alarm: %s fails too: %s", id, strings.Join(texts, "\n"))
					}
				}
			})
		}
	})
	idle.Range(func(id, _ any) bool {
		if !raceDetector {
			t.Errorf("%s fails for no wrong store", id)
		}
		return true
	})
	fmt.Printf("crash mutants: %d caught, %d survived, %d false alarms\n", caught.Load(), survived.Load(), alarms.Load())
}

// The right store that the wrong ones are made of fails nothing. It keeps to what FS says and has little else in
// common with package local.
func TestCrashMutantsAreMadeOfARightStore(t *testing.T) {
	t.Parallel()
	RunCrash(t, fileConfig(fileFlaws{}))
}

// runCrashMutant runs every case and returns the failures by id.
func runCrashMutant(t *testing.T, cfg CrashConfig) map[string][]string {
	cfg, err := cfg.check()
	require.NoError(t, err)
	r := newCrashRunner(cfg)
	r.prompt, r.patience = time.Second, time.Second
	failed := make(map[string][]string)
	for _, tc := range crashCases {
		out := r.run(t, t.Name()+"/"+tc.id, tc)
		require.False(t, out.skipped, tc.id)
		if out.failed {
			failed[tc.id] = out.failures
		}
		if len(out.leaked) > 0 {
			failed[leaked] = append(failed[leaked], tc.id+": "+strings.Join(out.leaked, "\n"))
		}
	}
	return failed
}

// fileFlaws are ways in which a store of files can be wrong.
type fileFlaws struct {
	dirNotSynced        bool // put: the segment's own directory
	parentsNotSynced    bool // put: the directories above it
	trustsOthersDirs    bool // put: a directory that is there is taken for durable
	fixedTemporary      bool // put: "temporary", in the directory of the segment, and what is there is taken over
	renames             bool // put: looks whether the segment is there, and renames
	acksBeforeSync      bool // put: syncs no file
	ignoresSyncError    bool // put: goes on
	syncsAgain          bool // put: goes on if the second try succeeds
	writesInPlace       bool // put: no temporary
	leavesTemporary     bool // put: if it fails
	fullIsUnavailable   bool // put: ENOSPC, EDQUOT
	temporaryIsSegment  bool // put: the temporary has the name of another segment
	renamesWithoutLinks bool // put: where the file system has none
	existsUnsynced      bool // put: "exists" without a sync of the directory
	existsIsFinal       bool // put: EEXIST of a temporary fails the upload
	waitsForSync        bool // put: a context that ends changes nothing while the disk works
	prunesOnDelete      bool // delete: removes the directory if it is empty
	staleIsMissing      bool // get, stat: ESTALE is "not found"
	deniedIsMissing     bool // all: EACCES, EPERM
	sweepsNothing       bool
	sweepsLocked        bool // sweep: what is old, held or not
	sweepsAll           bool // sweep: of any age, held or not
}

const fileTemporaryAge = time.Hour

// fileConfig is the configuration of RunCrash over fileDriver.
func fileConfig(flaws fileFlaws) CrashConfig {
	return CrashConfig{
		Open: func(_ testing.TB, fsys *CrashFS, store objectstore.Config) (walstorage.WalStorageManager, error) {
			return newManager(&fileDriver{fs: fsys, flaws: flaws}, store)
		},
		Sweep: func(_ context.Context, fsys *CrashFS, _ objectstore.Config) error {
			return (&fileDriver{fs: fsys, flaws: flaws}).sweep()
		},
		TemporaryAge: fileTemporaryAge,
	}
}

// fileDriver is the smallest driver over a CrashFS that is right: it makes every directory durable with every upload.
type fileDriver struct {
	fs    *CrashFS
	flaws fileFlaws
}

// temporaries numbers the temporaries of all drivers of this process, which the tests take for several.
var temporaries atomic.Int64

const fileTemporary = "temporary"

func (d *fileDriver) failure(err error) error {
	var errno syscall.Errno
	switch {
	case walstorage.KindOf(err) != nil:
		return err
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return walstorage.NewError(walstorage.ErrSegmentNotFound, err)
	case !errors.As(err, &errno):
		return err
	}
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT:
		if d.flaws.fullIsUnavailable {
			return walstorage.NewError(walstorage.ErrUnavailable, err)
		}
		return walstorage.NewError(walstorage.ErrNoSpace, err)
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		if d.flaws.deniedIsMissing && errno != syscall.EROFS {
			return walstorage.NewError(walstorage.ErrSegmentNotFound, err)
		}
		return walstorage.NewError(walstorage.ErrAccessDenied, err)
	case syscall.ESTALE:
		if d.flaws.staleIsMissing {
			return walstorage.NewError(walstorage.ErrSegmentNotFound, err)
		}
		return walstorage.NewError(walstorage.ErrUnavailable, err)
	case syscall.EIO, syscall.EMFILE:
		return walstorage.NewError(walstorage.ErrUnavailable, err)
	}
	return err
}

// slow makes a call that waits for the disk, in a goroutine that is left behind if the context ends.
func (d *fileDriver) slow(ctx context.Context, call func() error) error {
	if d.flaws.waitsForSync {
		return call()
	}
	result := make(chan error, 1)
	go func() { result <- call() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *fileDriver) Put(ctx context.Context, key string, body *objectstore.Body, _ uint32) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	err = d.put(ctx, key, data)
	if errors.Is(err, fs.ErrExist) {
		return walstorage.NewError(walstorage.ErrSegmentExists, err)
	}
	return d.failure(err)
}

func (d *fileDriver) put(ctx context.Context, key string, data []byte) (err error) {
	dir := path.Dir(key)
	if err := d.makeDirs(ctx, dir); err != nil {
		return err
	}
	name := path.Join(dir, fmt.Sprintf("%s-%d", fileTemporary, temporaries.Add(1)))
	switch {
	case d.flaws.fixedTemporary:
		name = path.Join(dir, fileTemporary)
	case d.flaws.writesInPlace:
		name = key
	case d.flaws.temporaryIsSegment:
		bare := strings.TrimSuffix(key, ".wal")
		// Of another segment, and never by chance of one that the suite makes.
		name = fmt.Sprintf("%sffff%08x.wal", bare[:len(bare)-12], uint32(temporaries.Add(1)))
	}
	file, err := d.fs.Create(name, 0o640)
	if d.flaws.fixedTemporary && errors.Is(err, fs.ErrExist) {
		_ = d.fs.Remove(name)
		file, err = d.fs.Create(name, 0o640)
	} else if errors.Is(err, fs.ErrExist) && d.flaws.existsIsFinal {
		return errors.New("the temporary is there")
	} else if errors.Is(err, fs.ErrExist) && !d.flaws.writesInPlace {
		// Its number is its own: the answer was lost, and the file is left to the sweep.
		return d.put(ctx, key, data)
	}
	if err != nil {
		return err
	}
	_ = file.Lock() // what cannot be locked is protected by its age
	if err = d.fill(ctx, file, data); err == nil {
		err = d.link(name, key)
	}
	if !d.flaws.writesInPlace && (err == nil || !d.flaws.leavesTemporary) {
		_ = d.fs.Remove(name)
	}
	_ = file.Close()
	exists := errors.Is(err, fs.ErrExist)
	if err != nil && !exists || exists && d.flaws.existsUnsynced || d.flaws.dirNotSynced {
		return err
	}
	return errors.Join(err, d.slow(ctx, func() error { return d.fs.SyncDir(dir) }))
}

func (d *fileDriver) makeDirs(ctx context.Context, dir string) error {
	if dir == "." {
		return nil
	}
	if err := d.makeDirs(ctx, path.Dir(dir)); err != nil {
		return err
	}
	err := d.fs.Mkdir(dir, 0o750)
	there := errors.Is(err, fs.ErrExist)
	if err != nil && !there {
		return err
	}
	if d.flaws.parentsNotSynced || there && d.flaws.trustsOthersDirs {
		return nil
	}
	return d.slow(ctx, func() error { return d.fs.SyncDir(path.Dir(dir)) })
}

func (d *fileDriver) fill(ctx context.Context, file local.File, data []byte) error {
	for half := range slices.Chunk(data, len(data)/2+1) {
		if _, err := file.Write(half); err != nil {
			return err
		}
	}
	if d.flaws.acksBeforeSync {
		return nil
	}
	err := d.slow(ctx, file.Sync)
	switch {
	case d.flaws.ignoresSyncError:
		return nil
	case err != nil && d.flaws.syncsAgain:
		return d.slow(ctx, file.Sync)
	}
	return err
}

func (d *fileDriver) link(name, key string) error {
	switch {
	case d.flaws.writesInPlace:
		return nil
	case d.flaws.renames:
		if _, err := d.fs.Lstat(key); err == nil {
			return fs.ErrExist
		}
	}
	var err error
	if d.flaws.renames {
		err = d.fs.Rename(name, key)
	} else {
		err = d.fs.Link(name, key)
	}
	if d.flaws.renamesWithoutLinks && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOTSUP)) {
		err = d.fs.Rename(name, key)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // a sweep has taken the temporary
		return walstorage.NewError(walstorage.ErrUnavailable, err)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	mine, myErr := d.fs.Lstat(name)
	there, thereErr := d.fs.Lstat(key)
	if myErr == nil && thereErr == nil && mine.Sys() == there.Sys() {
		return nil
	}
	return err
}

func (d *fileDriver) Get(_ context.Context, key string, offset int64, dst []byte) error {
	file, err := d.fs.Open(key)
	if err != nil {
		return d.failure(err)
	}
	defer func() { _ = file.Close() }()
	_, err = file.ReadAt(dst, offset)
	if errors.Is(err, io.EOF) {
		return walstorage.NewError(walstorage.ErrInvalidRange, err)
	}
	return d.failure(err)
}

func (d *fileDriver) Stat(_ context.Context, key string) (objectstore.Object, error) {
	info, err := d.fs.Lstat(key)
	if err != nil {
		return objectstore.Object{}, d.failure(err)
	}
	return objectstore.Object{Key: key, Size: info.Size(), Stored: info.ModTime()}, nil
}

func (d *fileDriver) Delete(_ context.Context, keys []string) error {
	for _, key := range keys {
		if err := d.fs.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.failure(err)
		}
		if d.flaws.prunesOnDelete {
			_ = d.fs.Remove(path.Dir(key))
		}
	}
	return nil
}

func (d *fileDriver) List(_ context.Context, prefix, _ string) (page []objectstore.Object, next string, err error) {
	err = d.walk(strings.TrimSuffix(prefix, "/"), func(name string, info fs.FileInfo) error {
		if strings.HasPrefix(path.Base(name), fileTemporary) {
			return nil
		}
		page = append(page, objectstore.Object{Key: name, Size: info.Size(), Stored: info.ModTime()})
		return nil
	})
	return page, "", d.failure(err)
}

// walk calls each for the files below a directory, which need not be there.
func (d *fileDriver) walk(dir string, each func(name string, info fs.FileInfo) error) error {
	err := d.fs.ReadDir(dir, func(entry fs.DirEntry) error {
		name := path.Join(dir, entry.Name())
		if entry.IsDir() {
			return d.walk(name, each)
		}
		info, err := d.fs.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return each(name, info)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *fileDriver) sweep() error {
	if d.flaws.sweepsNothing {
		return nil
	}
	clock := fmt.Sprintf("clock-%d", temporaries.Add(1))
	if err := d.fs.Mkdir(clock, 0o750); err != nil {
		return err
	}
	now, err := d.fs.Lstat(clock)
	if err != nil {
		return err
	}
	if err := d.fs.Remove(clock); err != nil {
		return err
	}
	return d.walk(".", func(name string, info fs.FileInfo) error {
		if !strings.HasPrefix(path.Base(name), fileTemporary) {
			return nil
		}
		if d.flaws.sweepsAll {
			return d.fs.Remove(name)
		}
		if now.ModTime().Sub(info.ModTime()) < fileTemporaryAge {
			return nil
		}
		file, err := d.fs.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if file.Lock() != nil && !d.flaws.sweepsLocked {
			return nil // of a process that lives
		}
		return d.fs.Remove(name)
	})
}

func (d *fileDriver) Limits() objectstore.Limits { return objectstore.Limits{KeysPerDelete: 1000} }

func (d *fileDriver) Close() error { return nil }
