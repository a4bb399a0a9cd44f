package s3

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// questionTimeout limits one question for credentials.
const questionTimeout = 30 * time.Second

// questions are those that a provider of the caller's is asked. The SDK's cache asks in a goroutine of its own, under a
// context that has no end: a question would outlast the driver (W12, D5), one without an answer would be waited for for
// ever, and a panic would end the process. So a question ends after some time, and with the driver.
type questions struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu     sync.Mutex
	closed bool // no question begins any more
}

func newQuestions() *questions {
	q := &questions{}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// close ends a question that is under way, and waits for it.
func (q *questions) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.asking.Wait()
}

// begin counts a question that q.asking.Done ends. It is false once the driver is closed.
func (q *questions) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.asking.Add(1)
	return true
}

// ask runs one question.
func (q *questions) ask(ctx context.Context, question func(ctx context.Context) (aws.Credentials, error)) (found aws.Credentials, err error) {
	if !q.begin() {
		return aws.Credentials{}, walstorage.NewError(walstorage.ErrClosed, nil)
	}
	defer q.asking.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), questionTimeout)
	defer cancel()
	defer context.AfterFunc(q.ctx, cancel)()
	defer func() {
		if value := recover(); value != nil {
			found, err = aws.Credentials{}, &objectstore.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return question(ctx)
}

// asked is a provider of the caller's, whose questions are ours.
type asked struct {
	provider  aws.CredentialsProvider
	questions *questions
}

// Retrieve implements aws.CredentialsProvider.
func (a *asked) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return a.questions.ask(ctx, a.provider.Retrieve)
}

// HandleFailToRefresh implements aws.HandleFailRefreshCredentialsCacheStrategy, by which the cache asks a provider that
// has an opinion what to do now.
func (a *asked) HandleFailToRefresh(ctx context.Context, previous aws.Credentials, err error) (aws.Credentials, error) {
	strategy, ok := a.provider.(aws.HandleFailRefreshCredentialsCacheStrategy)
	if !ok {
		return aws.Credentials{}, err
	}
	return a.questions.ask(ctx, func(ctx context.Context) (aws.Credentials, error) {
		return strategy.HandleFailToRefresh(ctx, previous, err)
	})
}
