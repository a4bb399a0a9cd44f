//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/walhop/walhop/walstorage"
)

// kindOf classifies what the file system returned (W7). nil is unclassified: Manager does not retry it.
//
// fs.ErrNotExist and fs.ErrExist are not told here: what they mean depends on the step.
func kindOf(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return walstorage.ErrClosed
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		if errors.Is(err, fs.ErrPermission) {
			return walstorage.ErrAccessDenied
		}
		return nil
	}
	switch errno {
	case syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ELOOP:
		// ELOOP: a maze of symbolic links is refused like one that leaves the root.
		return walstorage.ErrAccessDenied
	case syscall.ENOSPC, syscall.EDQUOT:
		return walstorage.ErrNoSpace
	case syscall.EFBIG:
		return walstorage.ErrTooLarge
	case syscall.ENAMETOOLONG:
		return walstorage.ErrInvalidArgument
	case syscall.EINTR, syscall.EAGAIN, syscall.EBUSY:
		return walstorage.ErrUnavailable
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS:
		// Out of descriptors or memory: another call's end mends it.
		return walstorage.ErrUnavailable
	case syscall.ESTALE, syscall.ETIMEDOUT, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED,
		syscall.ENOTCONN, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH:
		// A network file system lost its server or a handle of it; the next call looks the path up again.
		return walstorage.ErrUnavailable
	case syscall.EIO:
		// A network file system mounted soft says EIO where its server did not answer in time. A broken disk says it
		// too, and a retry there fails again at little cost: it writes a new file and uses nothing of the failed try
		// (N5), and the gate of Manager paces it.
		return walstorage.ErrUnavailable
	}
	return nil
}

// failure makes the error of a call out of what the file system returned. A context error passes as it is.
func (d *Driver) failure(err error) error { return d.failureOf(kindOf(err), err) }

// failureOf is failure for a step that knows the kind better.
func (d *Driver) failureOf(kind, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if classified := (*walstorage.Error)(nil); errors.As(err, &classified) {
		return err
	}
	return walstorage.NewError(kind, fmt.Errorf("local store %s: %w", d.name, err))
}

// absent tells whether the error says that nothing is stored under the name: it is missing, or a file stands where
// one of its directories would be.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// missing makes the error of a call that found nothing under a key. A missing root is not a missing segment (W7).
func (d *Driver) missing(err error) error {
	if d.rootMissing() {
		return d.failureOf(walstorage.ErrBucketNotFound, err)
	}
	return d.failureOf(walstorage.ErrSegmentNotFound, err)
}

func (d *Driver) rootMissing() bool {
	_, err := d.fs.Lstat(".")
	return absent(err)
}
