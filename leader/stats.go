package leader

import "time"

// Stats is a snapshot of an uploader. The counts are since it was made.
type Stats struct {
	// Partitions is the number of partitions led now, Backlogged of which have something that is not yet read.
	Partitions, Backlogged int
	// FailedPartitions are those whose log cannot be read now.
	FailedPartitions int
	// OldestUnserved is how long ago the oldest Notify was whose records are not yet in a segment, 0 if there is none.
	// A partition that skips forward leaves what it skipped out of it.
	OldestUnserved time.Duration
	// Lag is the same for records that are not yet published.
	Lag time.Duration
	// NoProgress is how long there has been something to publish and nothing was published. It keeps growing while the
	// store or the metadata log is down, whatever is given up and skipped meanwhile (KAFKA-19530); 0 if there is nothing
	// to publish.
	NoProgress time.Duration
	// OpenBytes are the bytes in the open segment.
	OpenBytes int
	// InFlight is the number of segments sealed and not yet published, those whose upload is stuck included, which are
	// Stuck.
	InFlight, Stuck int
	// BufferBytes is the memory held for segments, PeakBufferBytes the most that was ever held.
	BufferBytes, PeakBufferBytes int64

	// Sealed, Stored, Published and GivenUp count segments. Each sealed segment is published or given up in the end.
	Sealed, Stored, Published, GivenUp int64
	// PublishedSlices, PublishedBytes and PublishedObjectBytes are sums over the segments published: partitions, bytes of
	// record batches, bytes of objects.
	PublishedSlices, PublishedBytes, PublishedObjectBytes int64
	// Uploads counts UploadSegment calls, FailedUploads those that returned an error.
	Uploads, FailedUploads int64
	// Publishes counts Publish calls, FailedPublishes those that did not store every event.
	Publishes, FailedPublishes int64
	// Skips counts skips forward, SkippedOffsets the offsets in them (L11).
	Skips, SkippedOffsets int64
	// Reads counts Read calls, FailedReads those that failed and were followed by a pause.
	Reads, FailedReads int64
	// Panics counts the panics contained (L10).
	Panics int64
	// NextSequence is the sequence of the next event.
	NextSequence int64
}

// Stats returns a snapshot. It looks at every partition led, so it is for a metrics scrape and not for a hot path.
func (u *Uploader) Stats() Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	s := u.stats
	s.Partitions = len(u.partitions)
	oldest := none
	for _, l := range u.partitions { // only counts and a minimum come out of it: the order cannot be seen (D2)
		if at := l.oldest(); at != none {
			s.Backlogged++
			oldest = min(oldest, at)
		}
		if l.failures > 0 {
			s.FailedPartitions++
		}
	}
	s.OldestUnserved = age(now, oldest)
	oldest = min(oldest, u.open.oldest)
	for _, f := range u.queue {
		oldest = min(oldest, f.oldest)
	}
	s.Lag = age(now, oldest)
	s.NoProgress = age(now, u.busySince)
	s.OpenBytes = u.open.bytes
	s.InFlight = u.inUse
	s.Stuck = u.stuck
	s.NextSequence = u.nextSequence
	return s
}

// none is a time that is not there; it is later than any other.
const none = time.Duration(1<<63 - 1)

func age(now, since time.Duration) time.Duration {
	if since == none {
		return 0
	}
	return now - since
}
