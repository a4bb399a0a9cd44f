// Command quickstart runs three brokers in one process, each in a zone of its own, over one shared directory: every
// partition's leader combines what it appends into small segments, stores them there and announces them, and two
// followers fetch and append them. It first replays log segments that a real Apache Kafka broker wrote, then produces at
// a given rate, shows how long the records took and what the way through an object store would cost, and compares every
// follower's log with its leader's, byte for byte.
//
// It needs no server and no cloud SDK. The brokers are in examples/internal/threebrokers, whose broker.go is what a
// broker's author would copy; example cluster runs the same brokers over any store.
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

	"github.com/walhop/walhop/examples/internal/threebrokers"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// settings are the flags.
type settings struct {
	dir  string
	load threebrokers.Load
}

func main() {
	s := settings{load: threebrokers.Load{Duration: 4 * time.Second, Rate: 24, Partitions: 12, Linger: 10 * time.Millisecond}}
	flag.StringVar(&s.dir, "dir", "", "the shared directory, made if it is missing; empty for a temporary one that is removed at the end")
	s.load.Flags(flag.CommandLine)
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

// share is how much has to come through the store at least, where nothing is wrong with it.
const share = 0.95

// run is the whole program. The error says what went wrong, or what is wrong with the result.
func run(ctx context.Context, out io.Writer, s settings) (err error) {
	if err := s.load.Check(); err != nil {
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
	segments, announcements := filepath.Join(dir, "segments"), filepath.Join(dir, "events")
	for _, sub := range []string{segments, announcements} {
		if err := os.MkdirAll(sub, 0o750); err != nil {
			return err
		}
	}
	result, err := threebrokers.Run(ctx, out, threebrokers.Config{
		Load: s.load, Cluster: "quickstart", Place: dir, Announcements: threebrokers.InFiles(announcements),
		Store: func(ctx context.Context, config objectstore.Config) (*objectstore.Manager, error) {
			return local.New(ctx, local.Config{Root: segments, Store: config})
		},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, result)
	return result.Err(share)
}
