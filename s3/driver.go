package s3

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Driver stores objects in one bucket: the key of the object is the key in the bucket. All methods may be called from
// many goroutines.
type Driver struct {
	client     *sdk.Client
	bucket     string
	region     string // that requests are signed for
	kmsKeyID   string
	noChecksum bool
	stallAfter time.Duration
	codes      map[string]error // what the store's error codes mean, never written

	questions   *questions // for the caller's provider of credentials
	credentials *credentials
	sessions    *sessions
	own         *http.Transport // closed by Close, nil if the caller gave the client
	closed      atomic.Bool
}

var (
	_ objectstore.Driver = (*Driver)(nil)
	_ objectstore.Warmer = (*Driver)(nil)
)

// NewDriver makes a driver and sends no request to the store; see [Driver.Warm]. The error is of kind
// walstorage.ErrInvalidArgument and names the field that is wrong, or says what the environment's AWS configuration
// lacks. ctx ends the reading of that configuration. Most users call [New].
func NewDriver(ctx context.Context, config Config) (*Driver, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Driver{
		bucket:     config.Bucket,
		kmsKeyID:   config.KMSKeyID,
		stallAfter: config.StallTimeout,
		questions:  newQuestions(),
	}
	if err := d.connect(ctx, config); err != nil {
		return nil, err
	}
	return d, nil
}

// keysPerDelete is what DeleteObjects takes, objectBytes what PutObject takes.
const (
	keysPerDelete = 1000
	objectBytes   = 5 << 30
)

// Limits implements objectstore.Driver.
func (d *Driver) Limits() objectstore.Limits {
	return objectstore.Limits{KeysPerDelete: keysPerDelete, ObjectBytes: objectBytes}
}

// Close closes the idle connections of the driver's own HTTP client, and ends a question to Config.Credentials that is
// under way and waits for its end. Later calls give walstorage.ErrClosed. It may be called more than once.
func (d *Driver) Close() error {
	d.closed.Store(true)
	d.questions.close()
	if d.own != nil {
		d.own.CloseIdleConnections()
	}
	return nil
}

// call makes one attempt: run sends the request, and its failure is classified.
func (d *Driver) call(ctx context.Context, op operation, run func(ctx context.Context, w *stall.Watch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.closed.Load() {
		return walstorage.NewError(walstorage.ErrClosed, nil)
	}
	generation := d.credentials.begin()
	watched, w := stall.Start(ctx, d.stallAfter)
	defer w.End()
	a := &attempt{watch: w}
	err := run(context.WithValue(watched, attemptKey{}, a), w)
	if err == nil {
		d.credentials.worked(generation)
		return nil
	}
	if a.session != nil {
		err = a.session
	}
	return d.classify(ctx, w, op, generation, err)
}

// attempt is what has to pass by the SDK. It travels in the context of the requests of one attempt.
type attempt struct {
	watch   *stall.Watch // to be told of what is read of an answer
	session error        // why there is no session, of which the SDK keeps nothing but the text
}

type attemptKey struct{}

// attemptOf returns the attempt that a request belongs to, nil if to none.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}
