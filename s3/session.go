package s3

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/walhop/walhop/walstorage"
)

// sessionMargin is how long before its end a session is renewed.
const sessionMargin = time.Minute

// sessions gives the credentials of the session that a directory bucket wants. It stands in for the SDK's own, which
// makes a session for each of several requests that come at once, and goes on using one that the store has ended.
type sessions struct {
	client      *sdk.Client
	credentials *credentials
	kmsKeyID    string

	mu       sync.Mutex
	current  aws.Credentials
	of       uint64        // the generation of credentials that the session was made with
	renewing chan struct{} // closed when the request for a session has ended, nil if there is none
}

// Retrieve implements sdk.ExpressCredentialsProvider.
func (s *sessions) Retrieve(ctx context.Context, bucket string) (aws.Credentials, error) {
	session, err := s.retrieve(ctx, bucket)
	if a := attemptOf(ctx); a != nil {
		a.session = err
	}
	return session, err
}

// retrieve returns the session. One caller asks for the session; those who have one that is still
// good go on with it, the others wait.
func (s *sessions) retrieve(ctx context.Context, bucket string) (aws.Credentials, error) {
	for {
		generation := s.credentials.begin()
		s.mu.Lock()
		left := time.Duration(0)
		if s.current.HasKeys() && s.of == generation {
			left = time.Until(s.current.Expires)
		}
		current, renewing := s.current, s.renewing
		if left > sessionMargin || left > 0 && renewing != nil {
			s.mu.Unlock()
			return current, nil
		}
		if renewing == nil {
			done := make(chan struct{})
			s.renewing = done
			s.mu.Unlock()
			return s.renew(ctx, bucket, generation, done)
		}
		s.mu.Unlock()
		select {
		case <-renewing:
		case <-ctx.Done():
			return aws.Credentials{}, ctx.Err()
		}
	}
}

// renew asks for a session. No lock is held meanwhile (D1).
func (s *sessions) renew(ctx context.Context, bucket string, generation uint64, done chan struct{}) (aws.Credentials, error) {
	in := &sdk.CreateSessionInput{Bucket: &bucket}
	if s.kmsKeyID != "" {
		// The settings of an upload have to be those of its session.
		in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, &s.kmsKeyID
	}
	asked := time.Now()
	var fresh aws.Credentials
	defer func() { // after a panic too, of the caller's HTTP client say (W12): the others would wait for ever
		s.mu.Lock()
		defer s.mu.Unlock()
		if fresh.HasKeys() {
			s.of, s.current = generation, fresh
		}
		s.renewing = nil
		close(done)
	}()
	out, err := s.client.CreateSession(ctx, in)
	if err != nil {
		return aws.Credentials{}, err
	}
	if out.Credentials == nil || aws.ToString(out.Credentials.AccessKeyId) == "" {
		// Such as an error document under status 200.
		return aws.Credentials{}, walstorage.NewError(walstorage.ErrUnavailable, errors.New("s3: the answer to CreateSession has no credentials"))
	}
	fresh = aws.Credentials{
		AccessKeyID:     aws.ToString(out.Credentials.AccessKeyId),
		SecretAccessKey: aws.ToString(out.Credentials.SecretAccessKey),
		SessionToken:    aws.ToString(out.Credentials.SessionToken),
		CanExpire:       true,
		Expires:         expires(out, asked),
	}
	return fresh, nil
}

// expires tells when a session that was asked for at that time ends, by the clock of this machine: the store tells it by
// its own, which may be off from ours by more than the five minutes that a session lasts (J22). Read by ours, a session
// would then be made for every request, or be used after its end.
func expires(out *sdk.CreateSessionOutput, asked time.Time) time.Time {
	end := aws.ToTime(out.Credentials.Expiration)
	if raw, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		if told, err := http.ParseTime(raw.Header.Get("Date")); err == nil {
			return asked.Add(end.Sub(told))
		}
	}
	return end
}
