//go:build unix

package local

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// Swept is what one sweep removed.
type Swept struct {
	// Temporaries is the number of temporary files of uploads that died.
	Temporaries int
	// Directories is the number of empty hour and minute directories.
	Directories int
}

// sweepDepth is how many directories deep a sweep goes below the tree of a cluster: broker, hour, minute. Without a
// cluster to go by it may go as deep as the longest prefix needs.
const sweepDepth, sweepDepthOfRoot = 3, 300

// Sweep removes what uploads left behind that did not end: temporary files older than Config.TemporaryAge that no
// running process holds (N7, N8), and the empty hour and minute directories of the key layout that nothing has touched
// for twice that long. It visits the root and the tree of the cluster (the whole root, if Config.Store names none), and
// leaves alone all that it does not know. The driver calls it every Config.SweepInterval; several sweeps at once,
// on any number of hosts, do each other no harm, nor do they harm an upload:
//
//   - A temporary that a process holds is locked. Where the file system knows no locks, or keeps them to one host, the
//     age alone tells: an upload that takes longer than that finds its temporary gone when it links it, which is
//     walstorage.ErrUnavailable, and begins again.
//   - A directory goes only if it is empty, and an upload holds a file in the one that it uses. If the directory goes
//     just before that file is made, the upload makes it again (case F9).
//
// Ages are taken against the time that the file system gives to a new file, never against this host's clock.
func (d *Driver) Sweep(ctx context.Context) (Swept, error) {
	if err := d.enterWriting(ctx); err != nil {
		return Swept{}, err
	}
	defer d.leave()
	s := sweep{driver: d, ctx: ctx}
	var err error
	if d.sweepBase == "." {
		err = s.visit(".", sweepDepthOfRoot)
	} else if err = s.visit(".", 0); err == nil {
		err = s.visit(d.sweepBase, sweepDepth)
	}
	if absent(err) && !d.rootMissing() {
		err = nil // nothing has been stored yet
	} else if absent(err) {
		err = d.failureOf(walstorage.ErrBucketNotFound, err)
	}
	return s.swept, d.failure(err)
}

type sweep struct {
	driver *Driver
	ctx    context.Context
	now    time.Time // by the file system's clock, zero until it is needed
	failed error     // what told no time
	swept  Swept
}

// visit sweeps a directory, and those below it as deep as depth says.
func (s *sweep) visit(dir string, depth int) error {
	return s.driver.fs.ReadDir(dir, func(entry fs.DirEntry) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		name := join(dir, entry.Name())
		switch {
		case entry.Type().IsRegular() && isTemporary(entry.Name()):
			return s.temporary(name)
		case entry.IsDir() && depth > 0:
			if err := s.visit(name, depth-1); err != nil {
				return s.tolerate(err)
			}
			if isTimeDir(name) {
				return s.prune(name)
			}
		}
		return nil
	})
}

// tolerate drops the errors that are no reason to leave the rest of the tree unswept: others sweep and upload in it at
// the same time, and it may hold what is not ours.
func (s *sweep) tolerate(err error) error {
	if s.failed != nil {
		return s.failed
	}
	if absent(err) || kindOf(err) == walstorage.ErrAccessDenied || isFullDirectory(err) {
		return nil
	}
	return err
}

func (s *sweep) temporary(name string) error {
	d := s.driver
	if d.names.holds(name) {
		return nil
	}
	info, err := d.fs.Lstat(name)
	if err != nil {
		return s.tolerate(err)
	}
	if old, err := s.older(info, d.temporaryAge); !old {
		return err
	}
	file, err := d.fs.Open(name)
	if err != nil {
		return s.tolerate(err)
	}
	defer func() { _ = file.Close() }()
	if err := file.Lock(); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil // a running upload, however old
	}
	if err := d.fs.Remove(name); err != nil {
		return s.tolerate(err)
	}
	s.swept.Temporaries++
	return nil
}

// prune removes a directory of the key layout that is empty and has been out of use for long. Remove fails if anything
// is in it.
func (s *sweep) prune(name string) error {
	d := s.driver
	info, err := d.fs.Lstat(name)
	if err != nil {
		return s.tolerate(err)
	}
	if !info.IsDir() {
		return nil
	}
	// durableDirs relies on this age.
	if old, err := s.older(info, 2*d.temporaryAge); !old {
		return err
	}
	if err := d.fs.Remove(name); err != nil {
		return s.tolerate(err)
	}
	s.swept.Directories++
	return nil
}

// isTimeDir tells whether a path ends in an hour directory, yyyymmddhh, or in a minute directory within one, as
// walstorage.Keys makes them. No other directory is ever removed.
func isTimeDir(name string) bool {
	base := path.Base(name)
	switch len(base) {
	case len("yyyymmddhh"):
		return isDigits(base)
	case len("mm"):
		parent := path.Base(path.Dir(name))
		return isDigits(base) && len(parent) == len("yyyymmddhh") && isDigits(parent)
	}
	return false
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// older tells whether a file or directory was last changed at least so long ago, by the file system's own clock, which
// the first call of a sweep reads off a new file.
func (s *sweep) older(info fs.FileInfo, age time.Duration) (bool, error) {
	if s.now.IsZero() && s.failed == nil {
		s.now, s.failed = s.driver.storeTime()
	}
	if s.failed != nil {
		return false, s.failed
	}
	return s.now.Sub(info.ModTime()) >= age, nil
}

func (d *Driver) storeTime() (time.Time, error) {
	name := d.names.hold(".")
	defer d.names.release(name)
	file, err := d.fs.Create(name, d.fileMode)
	if err != nil {
		return time.Time{}, err
	}
	info, err := d.fs.Lstat(name)
	_ = d.fs.Remove(name)
	_ = file.Close()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// sweepEvery sweeps until Close. It logs what was swept, and a failure when it begins and when it ends.
func (d *Driver) sweepEvery(interval time.Duration) {
	defer d.running.Done()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	for {
		swept, err := d.Sweep(d.life)
		if d.life.Err() != nil {
			return
		}
		if swept != (Swept{}) {
			d.logger.Info("local store: swept", "root", d.name, "temporaries", swept.Temporaries, "directories", swept.Directories)
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				d.logger.Warn("local store: sweep fails", "root", d.name, "error", err)
			} else {
				d.logger.Info("local store: sweep works again", "root", d.name)
			}
		}
		select {
		case <-d.life.Done():
			return
		case <-ticker.C:
		}
	}
}
