package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The errors of [Open], and where they are met later, of the methods of a [Log]. They come with the cause, which
// errors.Is and errors.As reach. No text holds a credential (W11).
var (
	// ErrUnreachable says that no broker of the cluster has answered in time.
	ErrUnreachable = errors.New("kafkalog: the Kafka cluster does not answer")
	// ErrAuthentication says that the cluster has refused the credentials (SASL), or wants some.
	ErrAuthentication = errors.New("kafkalog: the Kafka cluster refuses the credentials")
	// ErrAuthorization says that the principal lacks a permission (ACL). The text names the operation and the resource.
	ErrAuthorization = errors.New("kafkalog: a permission is missing")
	// ErrTopic says that the topic is not one that a metadata log can use. The text names the setting and what to change.
	ErrTopic = errors.New("kafkalog: the topic does not fit")
)

// classify puts an error of a request into one of the kinds above, if it belongs to one. doing says what was tried, needs
// which permission it takes.
func classify(err error, doing, needs string) error {
	var denied *kadm.AuthError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &denied),
		errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed),
		errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("%w: %s needs %s: %w", ErrAuthorization, doing, needs, err)
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("%w: %s: %w", ErrAuthentication, doing, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s: it closes the connection, as clusters do that want TLS or SASL, or other credentials: %w", ErrUnreachable, doing, err)
	case isUnreachable(err):
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, doing, opaque{err})
	}
	return fmt.Errorf("kafkalog: %s: %w", doing, err)
}

// isUnreachable tells whether an error is one of the connection.
func isUnreachable(err error) bool {
	var network net.Error
	var first *kgo.ErrFirstReadEOF
	return errors.As(err, &network) || errors.As(err, &first) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed)
}

// telling returns which of two errors says more about why attempts fail: the later one, unless that is only that the time
// was up.
func telling(earlier, later error) error {
	var network net.Error
	if earlier != nil && (errors.Is(later, context.DeadlineExceeded) || errors.As(later, &network) && network.Timeout()) {
		return earlier
	}
	return later
}

// isPassing tells whether a request may succeed in a while.
func isPassing(err error) bool { return errors.Is(err, ErrUnreachable) || kerr.IsRetriable(err) }

// opaque hides from errors.Is that a time limit of ours has passed: only the caller's own is an error of the context.
type opaque struct{ err error }

func (o opaque) Error() string { return o.err.Error() }

// Is is asked with each kind of error.
func (o opaque) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(o.err, target)
}

// As reaches the client's own error.
func (o opaque) As(target any) bool { return errors.As(o.err, target) }
