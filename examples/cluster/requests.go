package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// requests counts and times what the brokers ask of the store. Its zero value is ready.
type requests struct {
	mu       sync.Mutex
	calls    map[string]*call
	refusals int
	refusal  error // the first of them
}

// call is one kind of request.
type call struct {
	durations []time.Duration
	failed    int
}

// hooks are for each of the managers.
func (r *requests) hooks() walstorage.Hooks {
	return walstorage.Hooks{AttemptDone: r.attempt, OperationDone: r.operation}
}

// attempt counts one request.
func (r *requests) attempt(_ context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]*call{}
	}
	c := r.calls[attempt.Call]
	if c == nil {
		c = &call{}
		r.calls[attempt.Call] = c
	}
	c.durations = append(c.durations, result.Duration)
	if result.Err != nil {
		c.failed++
	}
}

// operation notes the errors that are no slowness. What the end of the program cancels is none either.
func (r *requests) operation(_ context.Context, _ walstorage.Operation, result walstorage.OperationResult) {
	switch walstorage.KindOf(result.Err) {
	case walstorage.ErrUnavailable, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded:
		return
	}
	if result.Err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals++
	if r.refusal == nil {
		r.refusal = result.Err
	}
}

// refused says what the store refused, nil if it refused nothing.
func (r *requests) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusal == nil {
		return nil
	}
	return fmt.Errorf("%d calls of the store failed otherwise than by slowness, the first: %w", r.refusals, r.refusal)
}

// table prints a line for each kind of request, with its latencies as the brokers saw them, repeats included.
func (r *requests) table(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range []string{"Put", "Get", "Stat", "Delete", "List"} {
		c := r.calls[name]
		if c == nil {
			continue
		}
		slices.Sort(c.durations)
		fmt.Fprintf(w, "%s\t%d requests\tp50 %s\tp99 %s\t%d failed\n", name, len(c.durations), c.quantile(0.5), c.quantile(0.99), c.failed)
	}
	w.Flush()
	fmt.Fprintln(out)
}

// quantile returns the q-quantile of the durations, which are sorted.
func (c *call) quantile(q float64) time.Duration {
	return c.durations[int(q*float64(len(c.durations)-1))].Round(10 * time.Microsecond)
}
