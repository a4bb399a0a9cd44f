package sim

import (
	"context"
	"log/slog"
)

// lines is the log of a broker's storage manager: it counts what is said, and keeps nothing.
type lines struct{ cluster *Cluster }

var _ slog.Handler = (*lines)(nil)

// Enabled implements slog.Handler.
func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "object store unavailable, calls wait for a probe":
		l.cluster.count("gate closed")
	case "object store answers again":
		l.cluster.count("gate reopened")
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *lines) WithGroup(string) slog.Handler { return l }
