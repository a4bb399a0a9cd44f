package conformance

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is the testing.TB that a case and the user's factories see. It collects failures instead of failing the test
// at once: so a case runs in a goroutine of its own under a watchdog, a failure is printed together with the rule it
// breaks, and the suite can be run against a store that is known to be wrong without the test of the suite failing.
type recorder struct {
	// TB is the test around the case. What is not overridden below (TempDir, Setenv and the like) goes there.
	testing.TB
	name   string
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failed   bool
	skipped  bool
	reason   string   // why it was skipped
	failures []string // texts of Error and Fatal
	logs     []string
	cleanups []func()
}

func newRecorder(outer testing.TB, name string) *recorder {
	r := &recorder{TB: outer, name: name}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// protect calls f and returns when it has ended, in whatever way. A FailNow ends the goroutine that calls it, so f needs
// one of its own.
func (r *recorder) protect(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.recovered()
		f()
	}()
	<-done
}

// unwind runs the cleanups, last first; each may fail, and may register another.
func (r *recorder) unwind() {
	r.cancel()
	for {
		r.mu.Lock()
		if len(r.cleanups) == 0 {
			r.mu.Unlock()
			return
		}
		cleanup := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.mu.Unlock()
		r.protect(cleanup)
	}
}

// recovered turns a panic of the store into a failure of the case.
func (r *recorder) recovered() {
	if p := recover(); p != nil {
		r.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	if text != "" {
		r.failures = append(r.failures, strings.TrimSpace(text))
	}
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Context() context.Context          { return r.ctx }
func (r *recorder) Name() string                      { return r.name }
func (r *recorder) Helper()                           {}
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.fail("") }
func (r *recorder) FailNow()                          { r.fail(""); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.fail(fmt.Sprintln(args...)); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Log(args ...any) { r.log(fmt.Sprintln(args...)) }

func (r *recorder) Logf(format string, args ...any) { r.log(fmt.Sprintf(format, args...)) }

func (r *recorder) log(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, strings.TrimSpace(text))
}

func (r *recorder) skip(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped = true
	if reason = strings.TrimSpace(reason); reason != "" {
		r.reason = reason
	}
}

func (r *recorder) Skip(args ...any) { r.skip(fmt.Sprintln(args...)); runtime.Goexit() }
func (r *recorder) SkipNow()         { r.skip(""); runtime.Goexit() }
func (r *recorder) Skipf(format string, args ...any) {
	r.skip(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

// outcome returns what has been recorded so far.
func (r *recorder) outcome() outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return outcome{
		failures: slices.Clone(r.failures), logs: slices.Clone(r.logs),
		failed: r.failed, skipped: r.skipped, reason: r.reason,
	}
}
