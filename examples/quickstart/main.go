// Command quickstart runs three brokers in one process, each in a zone of its own, over one shared directory: every
// partition's leader combines what it appends into small segments, stores them there and announces them, and two
// followers fetch and append them. It first replays log segments that a real Apache Kafka broker wrote, then produces at
// a given rate, shows how long the records took and what the way through an object store would cost, and compares every
// follower's log with its leader's, byte for byte.
//
// It uses public packages of walhop only, no server and no cloud SDK. broker.go is what a broker's author would copy:
// how the parts are put together, and which call goes where.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	dir        string
	duration   time.Duration
	rate       float64 // MB/s
	partitions int
	linger     time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", "", "the shared directory, made if it is missing; empty for a temporary one that is removed at the end")
	flag.DurationVar(&s.duration, "duration", 4*time.Second, "how long to produce, after the real segments")
	flag.Float64Var(&s.rate, "rate", 24, "MB of records to produce each second, over all partitions")
	flag.IntVar(&s.partitions, "partitions", 12, "number of partitions to produce to")
	flag.DurationVar(&s.linger, "linger", 10*time.Millisecond, "how long a leader collects for one segment")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unknown argument %q, all settings are flags: see -help\n", flag.Arg(0))
		os.Exit(2)
	}

	// The first interrupt ends production and lets what is on its way arrive; a second one ends the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Stdout, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// check names the flag that is wrong.
func (s settings) check() error {
	switch {
	case s.duration < 0 || s.duration > time.Hour:
		return fmt.Errorf("-duration is %s, want 0 to 1h", s.duration)
	case s.rate <= 0 || s.rate > 1000:
		return fmt.Errorf("-rate is %g, want above 0 and at most 1000 MB/s", s.rate)
	case s.partitions < 1 || s.partitions > 1000:
		return fmt.Errorf("-partitions is %d, want 1 to 1000", s.partitions)
	case s.linger <= 0 || s.linger > 500*time.Millisecond:
		return fmt.Errorf("-linger is %s, want above 0 and at most 500ms", s.linger)
	}
	return nil
}

// run is the whole program. The error says what went wrong, or what is wrong with the result.
func run(ctx context.Context, out io.Writer, s settings) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	dir := s.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "walhop-quickstart-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}

	begun := time.Now()
	c, err := newCluster(dir, s.linger)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(out, "three brokers in zones a, b and c over %s\n", dir)

	if err := c.replay(ctx, out); err != nil {
		return err
	}
	progress := c.showProgress(out, begun)
	err = c.produce(ctx, s)
	if err == nil {
		err = c.settle(10 * time.Second)
	}
	progress()
	if err != nil {
		return err
	}
	c.table(out)
	return c.compare(out).err()
}
