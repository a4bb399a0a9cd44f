package httpstore

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// warmConnections is as many as an uploader's default sends at once.
const warmConnections = 8

// Warm asks once, so that a token or a session is there, and then eight times at once, each of which opens a connection.
// The error is that of the first request, or else one of the others'.
func Warm(ctx context.Context, ask func(ctx context.Context) error) error {
	if err := ask(ctx); err != nil {
		return err
	}
	errs := make([]error, warmConnections)
	var asked sync.WaitGroup
	for i := range errs {
		asked.Go(func() {
			defer func() { // of a client that was handed in; here nobody else contains it
				if value := recover(); value != nil {
					errs[i] = &objectstore.PanicError{Value: value, Stack: debug.Stack()}
				}
			}()
			errs[i] = ask(ctx)
		})
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
