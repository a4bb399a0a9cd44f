//go:build unix && !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package local

import "syscall"

// lock says that this system has no flock: the age alone then tells a stale temporary.
func lock(int, bool) error { return syscall.ENOTSUP }
