package azure

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Driver stores objects in one container: the key of the object is the name of the blob. All methods may be called from
// many goroutines.
type Driver struct {
	client     *container.Client
	md5        bool
	stallAfter time.Duration
	secrets    []string        // what no error text may hold
	tokens     *tokens         // nil where a key, a SAS or a ready client speaks for us
	own        *http.Transport // closed by Close, nil if the caller gave the client

	single atomic.Bool // the store knows no batches
	closed atomic.Bool
}

var (
	_ objectstore.Driver = (*Driver)(nil)
	_ objectstore.Warmer = (*Driver)(nil)
)

// NewDriver makes a driver and sends no request to the store; see [Driver.Warm]. The error is of kind
// walstorage.ErrInvalidArgument and names the field that is wrong, or says what is wrong with the environment's Azure
// credentials. The driver lives on when ctx has ended. Most users call [New].
func NewDriver(ctx context.Context, config Config) (*Driver, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Driver{md5: config.MD5, stallAfter: config.StallTimeout}
	if err := d.connect(ctx, config); err != nil {
		return nil, err
	}
	return d, nil
}

// keysPerDelete is what a Blob Batch takes, objectBytes what a Put Blob takes.
const (
	keysPerDelete = 256
	objectBytes   = 5000 << 20
)

// Limits implements objectstore.Driver.
func (d *Driver) Limits() objectstore.Limits {
	return objectstore.Limits{KeysPerDelete: keysPerDelete, ObjectBytes: objectBytes}
}

// Close closes the idle connections of the driver's own HTTP client, and ends the asking for a token. Later calls give
// walstorage.ErrClosed. It may be called more than once.
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

// watchKey is where the context of a request has its *stall.Watch.
type watchKey struct{}

// errRedirected is what becomes of a redirect that a ready client has followed (J17): whatever was answered there, success or
// "not found", is not the store's. net/http makes a GET without a body of an upload that is redirected with 301.
var errRedirected = walstorage.NewError(nil, errors.New("azure: the client has followed a redirect, and the answer is another place's"))

// followed tells whether an answer came by a redirect.
func followed(answer *http.Response) bool {
	return answer != nil && answer.Request != nil && answer.Request.Response != nil
}

// attempt is one request.
type attempt struct {
	watch      *stall.Watch
	answer     *http.Response // the head of what the store has answered, nil if nothing
	generation uint64         // of the token that it goes with
}

// saysNothing returns an error for an answer that should have no body and has one: a document about an error may stand there,
// under the status of success (J16).
func (a *attempt) saysNothing() error {
	if a.answer == nil { // a client that does not show its answers
		return nil
	}
	said, err := runtime.Payload(a.answer) // the SDK has read it
	if err != nil || len(bytes.TrimSpace(said)) > 0 {
		return walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: an answer that should have no body has one"))
	}
	return nil
}

// call makes one attempt: run sends the request, and its failure is classified.
func (d *Driver) call(ctx context.Context, op operation, run func(ctx context.Context, a *attempt) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.closed.Load() {
		return walstorage.NewError(walstorage.ErrClosed, nil)
	}
	a := &attempt{}
	if d.tokens != nil {
		var err error
		if a.generation, err = d.tokens.ready(ctx); err != nil {
			return d.tokenless(ctx, err)
		}
	}
	watched, watch := stall.Start(ctx, d.stallAfter)
	defer watch.End()
	a.watch = watch
	watched = context.WithValue(watched, watchKey{}, watch)
	err := run(policy.WithCaptureResponse(policy.WithRetryOptions(watched, once), &a.answer), a)
	if followed(a.answer) {
		err = errRedirected
	}
	if err != nil {
		return d.classify(ctx, a, op, err)
	}
	if d.tokens != nil {
		d.tokens.worked(a.generation)
	}
	return nil
}
