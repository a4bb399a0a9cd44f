//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Driver stores objects as files below one directory: the path of the file is the key. All methods may be called from
// many goroutines, and any number of processes and hosts may have a Driver on the same directory.
type Driver struct {
	fs       FS
	own      *OSFS // closed by Close, nil if the caller gave the FS
	name     string
	readOnly bool
	fileMode fs.FileMode
	dirMode  fs.FileMode
	listPage int
	logger   *slog.Logger

	temporaryAge time.Duration
	sweepBase    string // the cluster's tree, "." for the whole root
	names        temporaryNames
	durable      durableDirs
	stalled      atomic.Int32 // syncs whose caller has given up waiting

	// life ends with Close, and with it the sweeper. mu guards closed; running counts calls, syncs and the sweeper.
	life    context.Context
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

var _ objectstore.Driver = (*Driver)(nil)

// NewDriver opens the directory and checks, leaving nothing behind, that its file system can do what the store needs.
// The error says in one line what is wrong: walstorage.ErrInvalidArgument names a field of the configuration, or what
// the file system lacks; walstorage.ErrBucketNotFound says that Root does not exist; walstorage.ErrAccessDenied that
// it may not be used. Most users call [New].
func NewDriver(ctx context.Context, config Config) (*Driver, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{
		fs:           config.FS,
		name:         config.Root,
		readOnly:     config.ReadOnly,
		fileMode:     config.FileMode,
		dirMode:      config.DirMode,
		listPage:     config.ListPage,
		logger:       config.Store.Logger,
		temporaryAge: config.TemporaryAge,
		sweepBase:    ".",
		names:        newTemporaryNames(),
		durable:      newDurableDirs(config.TemporaryAge / 2),
	}
	if config.Store.Cluster != "" {
		keys, err := walstorage.NewKeys(config.Store.Prefix, config.Store.Cluster)
		if err != nil {
			return nil, err
		}
		d.sweepBase = strings.TrimSuffix(keys.Prefixes(walstorage.ListOptions{})[0], "/")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.fs == nil {
		if d.own, err = NewFS(config.Root); err != nil {
			return nil, d.notOpened(err)
		}
		d.fs, d.name = d.own, d.own.path
	}
	d.life, d.end = context.WithCancel(context.Background())
	if !d.readOnly {
		if err := d.probe(ctx); err != nil {
			// Not by Close, which waits: a sync that hangs may have been the reason, and goes on by itself.
			d.end()
			_ = d.closeRoot()
			return nil, err
		}
		if config.SweepInterval > 0 {
			d.running.Add(1)
			go d.sweepEvery(config.SweepInterval)
		}
	}
	return d, nil
}

// notOpened says what is wrong with Root.
func (d *Driver) notOpened(err error) error {
	kind, what := kindOf(err), "can't be opened"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind, what = walstorage.ErrBucketNotFound, "does not exist"
	case errors.Is(err, syscall.ENOTDIR):
		kind, what = walstorage.ErrInvalidArgument, "is not a directory"
	}
	return walstorage.NewError(kind, fmt.Errorf("local: Root %q %s: %w", d.name, what, err))
}

// Limits implements objectstore.Driver. A file may have any size that the file system takes.
func (d *Driver) Limits() objectstore.Limits { return objectstore.Limits{KeysPerDelete: 1000} }

// Close ends the sweeper and waits until it, every call under way, and every sync whose caller gave up waiting have
// returned: a disk that does not answer holds it up (W8). Later calls give walstorage.ErrClosed. It may be called more
// than once.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.running.Wait()
	return d.closeRoot()
}

func (d *Driver) closeRoot() error {
	if d.own == nil {
		return nil
	}
	return d.failure(d.own.Close())
}

// enter begins a call, leave ends it.
func (d *Driver) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return walstorage.NewError(walstorage.ErrClosed, nil)
	}
	d.running.Add(1)
	return nil
}

func (d *Driver) leave() { d.running.Done() }

// enterWriting is enter for the calls that change the store.
func (d *Driver) enterWriting(ctx context.Context) error {
	if d.readOnly {
		return walstorage.NewError(walstorage.ErrAccessDenied, fmt.Errorf("local store %s is opened with ReadOnly", d.name))
	}
	return d.enter(ctx)
}

// checkKey refuses what can't be the path of an object below the root. Manager builds keys that always can; os.Root
// stands behind this check for those who call the driver themselves.
func checkKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.ContainsAny(key, temporaryMark+"\x00") {
		return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("local: key %q names no file below the root", key))
	}
	return nil
}
