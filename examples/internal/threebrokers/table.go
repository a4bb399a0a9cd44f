package threebrokers

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/walstorage/segment"
)

// latencies measures the time from a leader's append to each follower's append from the store.
type latencies struct {
	mu      sync.Mutex
	waiting map[segment.PartitionKey][]mark
	samples []time.Duration
}

// mark is one batch on its way.
type mark struct {
	end       int64 // the offset after it
	at        time.Time
	followers int // how many have yet to append it
}

// appending notes what the leader is about to append, up to the offset end.
func (l *latencies) appending(p segment.PartitionKey, end int64, at time.Time, followers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[segment.PartitionKey][]mark{}
	}
	l.waiting[p] = append(l.waiting[p], mark{end: end, at: at, followers: followers})
}

// arrived notes a follower's append.
func (l *latencies) arrived(a follower.Appended, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	marks := l.waiting[a.Partition.Key()]
	for i := range marks {
		if m := &marks[i]; a.From < m.end && m.end <= a.To {
			l.samples = append(l.samples, now.Sub(m.at))
			m.followers--
		}
	}
	for len(marks) > 0 && marks[0].followers == 0 {
		marks = marks[1:]
	}
	if l.waiting != nil {
		l.waiting[a.Partition.Key()] = marks
	}
}

// quantile returns the q-quantile of the samples, 0 without any.
func (l *latencies) quantile(q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.samples) == 0 {
		return 0
	}
	slices.Sort(l.samples)
	return l.samples[int(q*float64(len(l.samples)-1))]
}

// totals sums up the brokers.
type totals struct {
	bytes                     int64 // that the followers appended from the store
	segments, objectBytes     int64
	uploads, fetches, fetched int64
	fallbacks, skips          int64
}

func (c *cluster) totals() (t totals) {
	for _, b := range c.brokers {
		l, f := b.uploader.Stats(), b.replicator.Stats()
		t.segments += l.Published
		t.objectBytes += l.PublishedObjectBytes
		t.uploads += l.Uploads
		t.skips += l.Skips
		t.fetches += f.SegmentFetches
		t.fetched += f.FetchedBytes
		t.fallbacks += f.Fallbacks
		t.bytes += f.Bytes
	}
	return t
}

// behind returns how many offsets the followers lack, over all partitions.
func (c *cluster) behind() (n int64) {
	for _, r := range c.all() {
		end, _ := r.leader().log.End()
		for _, p := range r.replicas[1:] {
			at, _ := p.log.End()
			n += max(end-at, 0)
		}
	}
	return n
}

// showProgress prints a line each second until the function that it returns is called.
func (c *cluster) showProgress(out io.Writer, begun time.Time) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		last := c.totals()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			t := c.totals()
			fmt.Fprintf(out, "%4.0f s  %6.1f MB/s to the followers, %4d segments/s, %5d records behind\n", time.Since(begun).Seconds(),
				float64(t.bytes-last.bytes)/1e6, t.segments-last.segments, c.behind())
			last = t
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// Prices in US dollars, us-east-1: S3 Express One Zone as in the worked example of the AWS S3 FAQ after the cut of April
// 2025 (every byte is billed), and traffic between zones, which sender and receiver pay $0.01 per GB each.
const (
	putPrice      = 0.00113 / 1000
	getPrice      = 0.00003 / 1000
	uploadPrice   = 0.0032 / gigabyte
	retrievePrice = 0.0006 / gigabyte
	crossZone     = 0.02 / gigabyte
	gigabyte      = 1 << 30
)

// table prints what was done, how long it took and what it would cost.
func (c *cluster) table(out io.Writer) {
	t := c.totals()
	var batches, records, bytes int64
	for _, r := range c.all() {
		log := r.leader().log.Bytes(r.leader().log.Start())
		n, k := count(log)
		batches, records, bytes = batches+int64(n), records+int64(k), bytes+int64(len(log))
	}
	mean := int64(0)
	if t.segments > 0 {
		mean = t.objectBytes / t.segments
	}
	store := float64(t.uploads)*putPrice + float64(t.objectBytes)*uploadPrice + float64(t.fetches)*getPrice + float64(t.fetched)*retrievePrice
	across := 2 * float64(bytes) * crossZone

	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "records\t%d in %d batches\n", records, batches)
	fmt.Fprintf(w, "bytes\t%d at the leaders, each to two followers\n", bytes)
	fmt.Fprintf(w, "segments\t%d of %d bytes on average\n", t.segments, mean)
	fmt.Fprintf(w, "requests\t%d uploads, %d fetches\n", t.uploads, t.fetches)
	fmt.Fprintf(w, "append to follower\tp50 %s, p99 %s\n", c.latency.quantile(0.5).Round(100*time.Microsecond), c.latency.quantile(0.99).Round(100*time.Microsecond))
	fmt.Fprintf(w, "fallbacks\t%d, and %d skips forward at the leaders\n", t.fallbacks, t.skips)
	fmt.Fprintf(w, "cost on S3 Express\t$%.6f\n", store)
	fmt.Fprintf(w, "cost across zones\t$%.6f, so the store costs %.0f %% of it\n", across, 100*store/max(across, 1e-12))
	w.Flush()
	fmt.Fprintln(out)
}
