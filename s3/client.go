package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
)

// connect makes the SDK's client.
func (d *Driver) connect(ctx context.Context, config Config) error {
	var options sdk.Options
	if config.Client != nil {
		options = config.Client.Options()
	} else {
		loaded, err := d.load(ctx, config)
		if err != nil {
			return err
		}
		// A client is made to learn what the environment says of the endpoint; it sends nothing.
		options = sdk.NewFromConfig(loaded, func(o *sdk.Options) {
			if config.Endpoint != "" {
				o.BaseEndpoint = aws.String(config.Endpoint)
			}
			o.UsePathStyle = o.UsePathStyle || config.PathStyle
		}).Options()
	}
	if options.BaseEndpoint != nil {
		if problem := httpstore.WrongEndpoint(*options.BaseEndpoint); problem != "" {
			return invalid("Endpoint", "that of %s %s", from(config), problem)
		}
	}
	row, err := providerOf(config, aws.ToString(options.BaseEndpoint))
	if err != nil {
		return err
	}
	if err := row.lists(config.Store); err != nil {
		return err
	}
	d.codes = codesOf(row)
	d.noChecksum = config.NoChecksum || row.noChecksum
	if config.Client == nil {
		options.UsePathStyle = options.UsePathStyle || row.pathStyle
		if config.Region == "" && row.region != "" {
			options.Region = row.region
		}
		if options.Region == "" {
			if options.BaseEndpoint == nil {
				return invalid("Region", "is empty, and the environment names none")
			}
			options.Region = regionElsewhere
		}
	} else if options.Region == "" {
		return invalid("Client", "has no region")
	}
	if problem := wrongRegion(options.Region); problem != "" {
		return invalid("Region", "that of %s: %s", from(config), problem)
	}
	d.region = options.Region
	d.setCredentials(options.Credentials)
	d.setClient(sdk.New(options, d.options))
	if config.Client == nil { // and nobody else's middleware is asked
		return d.resolves(ctx)
	}
	return nil
}

// from is where that comes from which the configuration leaves open.
func from(config Config) string {
	if config.Client != nil {
		return "Client"
	}
	return "the environment"
}

// errResolved ends the trial of resolves where all is well.
var errResolved = errors.New("the SDK knows where to send a request")

// resolves has the SDK prepare a request up to where it would ask for credentials, and sends none: what does not go
// together, as an endpoint with AWS_USE_FIPS_ENDPOINT or a region with an ARN of another, is refused now and not by the
// first upload.
func (d *Driver) resolves(ctx context.Context) error {
	const next = "GetIdentity" // the step of the SDK that asks for credentials
	stop := middleware.FinalizeMiddlewareFunc("walhop:Resolved",
		func(context.Context, middleware.FinalizeInput, middleware.FinalizeHandler) (out middleware.FinalizeOutput, m middleware.Metadata, err error) {
			return out, m, errResolved
		})
	_, err := d.client.HeadBucket(ctx, &sdk.HeadBucketInput{Bucket: &d.bucket}, func(o *sdk.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(stack *middleware.Stack) error {
			if _, known := stack.Finalize.Get(next); !known {
				return errResolved // a version whose steps have other names: the first request will tell
			}
			return stack.Finalize.Insert(stop, next, middleware.Before)
		})
	})
	switch {
	case err == nil, errors.Is(err, errResolved):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		err = operation.Err // which operation was tried is no matter
	}
	field := "Endpoint"
	if isDirectory(d.bucket) || isARN(d.bucket) {
		field = "Bucket"
	}
	return invalid(field, "does not go together with the other fields and the environment: %w", err)
}

// load reads the environment's configuration.
func (d *Driver) load(ctx context.Context, config Config) (aws.Config, error) {
	// The credentials chain asks through the SDK's own kind of client: a plain one makes loading fail wherever
	// AWS_CA_BUNDLE is set.
	buildable := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { httpstore.Configure(t, config.settings()) })
	load := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithHTTPClient(buildable),
		awsconfig.WithLogger(logging.Nop{}), // the SDK's own writes to stderr; what matters comes back as an error
	}
	if config.Region != "" {
		load = append(load, awsconfig.WithRegion(config.Region))
	}
	if config.Credentials != nil {
		provider := config.Credentials
		if _, ready := provider.(*aws.CredentialsCache); !ready && !isAnonymous(provider) {
			provider = cached(provider, d.questions) // the SDK would make a cache that asks the provider itself
		}
		load = append(load, awsconfig.WithCredentialsProvider(provider))
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, load...)
	if err != nil {
		if ctx.Err() != nil {
			return aws.Config{}, ctx.Err()
		}
		return aws.Config{}, walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("s3: the environment's AWS configuration: %w", err))
	}
	if config.HTTPClient != nil {
		loaded.HTTPClient = config.HTTPClient
		return loaded, nil
	}
	if with, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		buildable = with // it has the certificates of AWS_CA_BUNDLE
	}
	d.own = buildable.GetTransport()
	loaded.HTTPClient = &http.Client{Transport: d.own}
	return loaded, nil
}

// setCredentials comes before the client is made, setClient after it: sessions are asked for through the client itself.
func (d *Driver) setCredentials(provider aws.CredentialsProvider) {
	d.credentials = newCredentials(provider, d.questions)
	d.sessions = &sessions{credentials: d.credentials, kmsKeyID: d.kmsKeyID}
}

func (d *Driver) setClient(client *sdk.Client) {
	d.client, d.sessions.client = client, client
}

// options are the settings that no client may have otherwise: one layer retries, and it is not the SDK (J20), and
// checksums are what this package says and never the SDK's choice (report aws/aws-sdk-go-v2#3007).
func (d *Driver) options(o *sdk.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 0
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.ContinueHeaderThresholdBytes = -1 // "Expect: 100-continue" is a round trip more
	if d.credentials.cache != nil {
		o.Credentials = d.credentials
	}
	o.ExpressCredentials = d.sessions
	o.HTTPClient = newSender(o.HTTPClient)
	own := []func(*middleware.Stack) error{withoutClockCorrection}
	if d.noChecksum {
		own = append(own, withoutChecksum)
	}
	o.APIOptions = slices.Concat(o.APIOptions, own)
}

// withoutClockCorrection takes out what measures how far the clock of this machine is from that of the last answer. Newer
// versions of the SDK sign the next request with it: so an answer of something between us and the store, with a clock of
// its own, makes the store refuse a request that was right, and a correction outlives its reason (J22, report
// aws/aws-sdk-go-v2#3187). Every request is signed with this machine's time, whatever the SDK's version.
func withoutClockCorrection(stack *middleware.Stack) error {
	_, _ = stack.Deserialize.Remove((*awsmiddleware.RecordResponseTiming)(nil).ID())
	return nil
}

// withoutChecksum takes the SDK's checksums out of every request. DeleteObjects must have one, and an MD5 will do.
func withoutChecksum(stack *middleware.Stack) error {
	// An id that a stack does not have is an error of Remove, and no concern of ours.
	_, _ = stack.Initialize.Remove("AWSChecksum:SetupInputContext")
	_, _ = stack.Build.Remove("AWSChecksum:RequestMetricsTracking")
	_, _ = stack.Finalize.Remove("AWSChecksum:ComputeInputPayloadChecksum")
	_, _ = stack.Finalize.Remove("addInputChecksumTrailer")
	switch stack.ID() {
	case "PutObject":
		// Signed over TLS too, in place of the checksum (W4).
		_, err := stack.Finalize.Swap((&v4.ComputePayloadSHA256{}).ID(), &v4.ComputePayloadSHA256{})
		return err
	case "DeleteObjects":
		return smithyhttp.AddContentChecksumMiddleware(stack)
	}
	return nil
}
