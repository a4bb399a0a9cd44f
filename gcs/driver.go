package gcs

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Driver stores objects in one bucket: the key of the object is its name in the bucket. All methods may be called from
// many goroutines.
type Driver struct {
	bucket      *storage.BucketHandle
	stallAfter  time.Duration
	seesAnswers bool            // the requests go through our transport
	own         *http.Transport // closed by Close, nil if the caller gave the client
	tokens      *tokens         // closed by Close, nil for anonymous requests and a client of the caller's
	closed      atomic.Bool

	// plainReads is set once a client of the caller's has refused to ask for objects as they are stored.
	plainReads atomic.Bool
}

var _ objectstore.Driver = (*Driver)(nil)

// NewDriver makes a driver and sends no request to the store; see [Driver.Warm]. The error is of kind
// walstorage.ErrInvalidArgument and names the field that is wrong, or says that the environment has no credentials, for
// which the SDK may have to ask the machine's metadata server, some seconds long and whatever ctx says. Most users call
// [New].
func NewDriver(ctx context.Context, config Config) (*Driver, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Driver{stallAfter: config.StallTimeout}
	if err := d.connect(ctx, config); err != nil {
		return nil, err
	}
	return d, nil
}

// objectBytes is the largest object of the service.
const objectBytes = 5 << 40

// Limits implements objectstore.Driver.
func (d *Driver) Limits() objectstore.Limits {
	return objectstore.Limits{KeysPerDelete: keysPerDelete, ObjectBytes: objectBytes}
}

// Close closes the idle connections of the driver's own HTTP client, and ends a question for a token that is under way.
// Later calls give walstorage.ErrClosed. It may be called more than once.
func (d *Driver) Close() error {
	d.closed.Store(true)
	if d.tokens != nil {
		d.tokens.close()
	}
	if d.own != nil {
		d.own.CloseIdleConnections()
	}
	return nil
}

// call makes one attempt: run sends the request, and its failure is classified.
func (d *Driver) call(ctx context.Context, x *exchange, run func(ctx context.Context, w *stall.Watch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.closed.Load() {
		return walstorage.NewError(walstorage.ErrClosed, nil)
	}
	watched, w := stall.Start(ctx, d.stallAfter)
	defer w.End()
	x.watch = w
	err := run(d.once(x.with(watched), x), w)
	if x.again.Load() && !x.enough && (err == nil || !d.seesAnswers) {
		err = errAgain // whatever has come of the second request, if it was faster than its end
	}
	if err != nil {
		return classify(ctx, w, x, err)
	}
	return nil
}
