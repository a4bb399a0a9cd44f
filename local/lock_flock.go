//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package local

import "syscall"

// lock takes a lock by flock(2), which belongs to the open file: closing another descriptor of the same file, as fcntl
// locks would have it, does not lose it. Network file systems that carry flock over as a byte range ask that an
// exclusive lock is on a file open for writing, a shared one on a file open for reading.
func lock(fd int, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(fd, how|syscall.LOCK_NB)
		if err != syscall.EINTR {
			return err
		}
	}
}
