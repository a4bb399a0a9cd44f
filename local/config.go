//go:build unix

package local

import (
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Config says where the store is. Root and Store.Cluster are all that most users set. It is copied: changing it later
// has no effect.
type Config struct {
	// Root is the directory that holds the store, absolute or relative to the working directory at the time of the
	// call. It must exist, so that a file system that is not mounted is noticed and not filled up beneath its mount
	// point. Required unless FS is set, in which case it is only the store's name in error texts.
	Root string

	// ReadOnly opens a store on which this process has no write permission, as on a read-only mount: uploads and
	// deletes give walstorage.ErrAccessDenied, nothing is swept, and no start-up check writes.
	ReadOnly bool

	// FileMode and DirMode are the permissions of new files and directories, from which the umask of the process is
	// taken away. The defaults are 0640 and 0750: brokers that run as different users share a store by their group.
	// FileMode has to contain 0600, DirMode 0700, and both nothing above 0777.
	FileMode, DirMode fs.FileMode

	// TemporaryAge is the age at which a temporary file that no running process holds is swept: default one hour, at
	// least one minute. Keep it far above the longest upload. Ages are differences of two times that the file system
	// itself gave, so a host with a wrong clock sweeps nothing too early.
	TemporaryAge time.Duration

	// SweepInterval is the time between two sweeps, the first of which begins at once: default TemporaryAge, at least
	// one second. Negative is no sweep, for those who call [Driver.Sweep] themselves.
	SweepInterval time.Duration

	// ListPage is the largest number of objects in one page of Driver.List: default 1,000, at most 100,000.
	ListPage int

	// FS takes the place of the real file system below Root. The caller closes it, after the store.
	FS FS

	// Store configures the Manager above the driver: cluster, key prefix, retries, hooks, the logger. NewDriver uses
	// its Cluster and Prefix only to sweep no further than the tree of the cluster, and its Logger.
	Store objectstore.Config
}

const (
	defaultFileMode     fs.FileMode = 0o640
	defaultDirMode      fs.FileMode = 0o750
	defaultTemporaryAge             = time.Hour
	minTemporaryAge                 = time.Minute
	minSweepInterval                = time.Second
	defaultListPage                 = 1000
	maxListPage                     = 100_000
)

// withDefaults returns the configuration with its zero values filled in, or an error of kind
// walstorage.ErrInvalidArgument that names the wrong field.
func (c Config) withDefaults() (Config, error) {
	if c.FileMode == 0 {
		c.FileMode = defaultFileMode
	}
	if c.DirMode == 0 {
		c.DirMode = defaultDirMode
	}
	if c.TemporaryAge == 0 {
		c.TemporaryAge = defaultTemporaryAge
	}
	if c.SweepInterval == 0 {
		c.SweepInterval = c.TemporaryAge
	}
	if c.ListPage == 0 {
		c.ListPage = defaultListPage
	}
	if c.Store.Logger == nil {
		c.Store.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Root == "" && c.FS == nil:
		return Config{}, invalid("Root is empty")
	case c.FileMode&^0o777 != 0 || c.FileMode&0o600 != 0o600:
		return Config{}, invalid("FileMode %#o: it has to contain 0600 and nothing above 0777", uint32(c.FileMode))
	case c.DirMode&^0o777 != 0 || c.DirMode&0o700 != 0o700:
		return Config{}, invalid("DirMode %#o: it has to contain 0700 and nothing above 0777", uint32(c.DirMode))
	case c.TemporaryAge < minTemporaryAge:
		return Config{}, invalid("TemporaryAge %s is below %s", c.TemporaryAge, minTemporaryAge)
	case c.SweepInterval >= 0 && c.SweepInterval < minSweepInterval:
		return Config{}, invalid("SweepInterval %s is below %s", c.SweepInterval, minSweepInterval)
	case c.ListPage < 1 || c.ListPage > maxListPage:
		return Config{}, invalid("ListPage %d is not between 1 and %d", c.ListPage, maxListPage)
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("local: "+format, args...))
}
