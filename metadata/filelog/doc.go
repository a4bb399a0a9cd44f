// Package filelog is the embedded default of the metadata log: files in a directory that all brokers of a cluster
// share, with nothing to run beside the brokers.
//
// # Layout
//
//	<Dir>/<broker id>/<broker epoch>-<number>.events
//
// A file has one writer for ever: the [Log] that created it, exclusively, under a name that holds its broker epoch and
// counts its files. It begins with a header, then come frames, one event each, with checksums that also cover the place
// of the frame, so that no stray bytes are taken for an event. Files are never changed but at their end. A writer turns
// to a new file when the old one is large or old, and whenever a write or an fsync has failed: a file that may hold
// half a frame is never written again. Files older than Config.Retention are removed (M6).
//
// # Guarantees
//
// Publish returns when the events are on disk: written, fsynced, and, for a new file, the directory too. A torn tail,
// which a crash inside Publish leaves behind, is recognised and reported; it was never acknowledged. A frame that does
// not match its checksums is skipped with a Gap, found or not, and reading goes on at the next good one (M4). So is a
// file that cannot be read at all: it holds up no other, and its events come, late, if it can be read again. A writer
// that finds files of a newer epoch of its own broker stops with ErrFenced (L6). It looks before each write; one that
// is overtaken between the look and the write still gets its event in, which is harmless, as followers trust the
// leader epoch alone (F1).
//
// # Latency and cost
//
// One goroutine per Log polls while there are subscriptions: each Config.PollInterval it asks for the size of each
// broker's newest files and the time of each directory. With the default an event is seen 0.75 ms after its write on
// average, and polling for three brokers takes 3 to 5 % of a core of a small virtual machine, nearly all of it for
// waking up; TestPollingCost measures it. With more than some 25 brokers the interval stretches, up to tenfold, so that
// looking takes no more than 5 % itself. Publish costs a listing of the broker's directory, one write and one fsync,
// whatever the number of events.
//
// # Network file systems
//
// Creating exclusively, appending by one writer and fsync are all that is asked of the file system. What a reader on
// another machine sees depends on the client's attribute cache. NFS caches the size of a file for 3 s or more and a
// directory for 30 s or more: mount with actimeo=0, so that each poll asks the server, and set PollInterval to a few
// round trips, 5 ms say. An event is then seen after PollInterval and two to three round trips; each poll costs one
// small request per live file and per directory. With the cache on, everything is still correct and followers fall
// back to their leaders for as long as the cache hides the events. SMB and FUSE file systems have caches of their own;
// those that buffer writes until close cannot be used. The brokers' clocks may differ by less than half of Retention.
package filelog
