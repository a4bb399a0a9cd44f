package threebrokers

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Opener opens the store once for each broker. config has what is the broker's own in it: the backend's New takes it as
// its field Store.
type Opener func(ctx context.Context, config objectstore.Config) (*objectstore.Manager, error)

// Announcer opens the metadata log once for each broker, in whose name and in which epoch it publishes.
type Announcer func(ctx context.Context, broker int32, epoch int64, logger *slog.Logger) (metadata.Log, error)

// InFiles is a metadata log in a directory that the brokers share. It has to exist.
func InFiles(dir string) Announcer {
	return func(ctx context.Context, broker int32, epoch int64, logger *slog.Logger) (metadata.Log, error) {
		log, err := filelog.New(ctx, filelog.Config{Dir: dir, Broker: broker, BrokerEpoch: epoch, Logger: logger})
		if err != nil {
			return nil, err // and no interface around a nil *filelog.Log
		}
		return log, nil
	}
}

// Config says what to run.
type Config struct {
	Load

	// Cluster is the id of the cluster, 1 to 255 of A-Z a-z 0-9 . _ -
	Cluster string
	// Store opens the store that the brokers share, Place is how it is called in the first line.
	Store Opener
	Place string
	// Announcements opens the metadata log that the brokers share.
	Announcements Announcer
}

// patience is how long the followers may take to get what they lack, before the program gives up. A store that is slow or
// down delays them by some seconds at most: then they fetch from the leader.
const patience = 30 * time.Second

// Run starts the brokers, replays the real segments, produces, waits until the followers have everything, prints the table
// and compares the logs. An end of ctx ends production and lets what is on its way arrive. The closing line is the
// caller's to print, and what the result has to be the caller's to judge.
func Run(ctx context.Context, out io.Writer, config Config) (Result, error) {
	begun := time.Now()
	c, err := newCluster(config)
	if err != nil {
		return Result{}, err
	}
	defer c.close()
	fmt.Fprintf(out, "three brokers in zones a, b and c over %s\n", config.Place)

	if err := c.replay(ctx, out); err != nil {
		return Result{}, err
	}
	progress := c.showProgress(out, begun)
	err = c.produce(ctx, config.Load)
	if err == nil {
		err = c.settle(patience)
	}
	progress()
	if err != nil {
		return Result{}, err
	}
	c.table(out)
	return c.compare(out), nil
}
