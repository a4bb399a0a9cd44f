// Package gcs stores segments in Google Cloud Storage.
//
// [New] is what a broker calls. It needs a bucket and credentials: Google's application default credentials or the ones
// in [Config].
//
// # What goes over the wire
//
// The JSON API over HTTP/1.1. An upload is one multipart request with ifGenerationMatch=0, so that an object is created
// and never replaced (W2), and with the CRC-32C of the body in its metadata, which the service verifies (W4): that also
// refuses an upload that was cut on its way, which would otherwise look whole. It is sent as it is read, without a buffer
// of the SDK's. A read is one request for a range, and a list one request for each page. The SDK has no bulk delete:
// keys are deleted one by one, sixteen at a time, each with its own answer (W9). Nothing is retried here, and the SDK's
// own retries are off: objectstore.Manager does that.
//
// Where an answer leaves open whether an object or its bucket is missing, the bucket is asked for, by a list of at most
// one object (W7). Where the service says that it has stored another checksum than that of the bytes sent, the outcome
// is unknown and the error walstorage.ErrUnavailable: the Manager then looks at what is there.
//
// # Permissions
//
// storage.objects.create, storage.objects.get, storage.objects.delete and storage.objects.list; the role Storage Object
// User (roles/storage.objectUser) has them. No permission on the bucket itself is needed.
//
// # Credentials
//
// Tokens go out with each request in a header. Over plain http they do only if they are given in Config.Credentials: those
// of the environment are then not looked for, as emulators need none. A token is asked for again four minutes before it
// expires, while the old one is used on, and once after the service has refused it; a second refusal is
// walstorage.ErrAccessDenied. The credentials of the environment are then looked for anew, and, once a minute, where they
// are refused a token: a key may be changed under a running broker. A question may take 30 seconds; attempts that are over
// before leave it to the next. No redirect is followed.
//
// # Limits
//
// The service takes about one write a second of one name, and answers 429 beyond that. Segments have a name each; where
// several brokers race for one, each has its answer after some repetitions.
//
// Rapid buckets (zonal, appendable objects) need the SDK's gRPC client, which this package does not use: there is no
// server to test it against.
//
// # Emulators and private endpoints
//
// [Config.Endpoint] names them. The variable STORAGE_EMULATOR_HOST has no effect, except that
// a value that looks like a URL and is not one is refused: the SDK parses it.
package gcs
