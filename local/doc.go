//go:build unix

// Package local stores segments as files in a directory that all brokers share: it is the LocalWalStorageManager of
// KIP-1176. A segment is one file, whose path below the root is its object key.
//
// It is for tests and development, where the directory is any local one, and for clusters that have a shared POSIX file
// system: NFS version 4, CephFS, GlusterFS, Lustre, a cluster file system on a shared block device. Any number of
// processes and hosts may use one directory at once.
//
// # What the file system must do
//
// It needs hard links, of which link(2) makes one atomically and never in place of a name that exists, and fsync for
// files and for directories. [New] checks what can be checked, and says in one error what is missing; so FAT, exFAT and
// most object stores mounted through FUSE are refused. Nobody may rename the directories of the tree while it is in use;
// files of others in it are left alone. On a file system that folds case (macOS by default), no two clusters or prefixes
// may differ by case alone.
//
// Files are made with [Config].FileMode and DirMode (0640 and 0750) less the umask, and belong to the user that runs the
// broker. Paths are confined to the root by os.Root: a symbolic link that leads out of it is refused. Links that stay
// within are followed to a named segment but not by lists and sweeps, so keep none in the tree.
//
// # What it guarantees
//
// An upload that returned nil is on disk, by the order write, fsync, link, fsync of the directory, return, and with it
// the names of all directories above. A reader sees a whole segment or none. An upload that died leaves a temporary
// file, which no list shows and a sweep removes when it is an hour old and no living process holds it. Deletes are not
// synced: after a power cut a deleted segment may be back.
//
// There are no checksums: as everywhere, the reader verifies those in the segment.
//
// A cancel or a deadline ends an upload at once even while the disk does not answer an fsync; that fsync then goes on
// by itself, Close waits for it, and after 64 of them uploads are refused with walstorage.ErrUnavailable. Reads, writes
// and all other calls return when the kernel does: a file system mounted hard holds them until its server is back. Where
// an fsync takes longer than half a second now and then, raise AttemptTimeout in [Config].Store: an attempt that is given
// up is written again.
//
// # Network file systems
//
// Their clients cache attributes and the absence of names. A follower that looked for a segment too early may be told
// for some seconds more that there is none (NFS: up to acdirmax, 60 s by default), fall back to its leader, and come
// back by itself; the mount options lookupcache=positive (or none) and actimeo=1 keep that short. Where the answer to a
// link is lost and the client repeats it, the file system says "exists" of our own file: this is told by the file's
// identity. A stale handle (ESTALE), a server that does not answer on a soft mount (EIO, ETIMEDOUT) and the like are
// walstorage.ErrUnavailable and retried; the next try looks its path up anew. Locks (flock) protect temporaries from the
// sweeps of others; where they do not reach other hosts, the age does.
package local
