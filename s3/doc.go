// Package s3 stores segments in Amazon S3, in S3 Express One Zone, and in stores that speak the same protocol.
//
// [New] is what a broker calls. It needs a bucket and, unless the environment names them, a region and credentials:
// those of AWS's own chain (environment, shared files, web identity, container, instance) or the ones in [Config].
//
// # What goes over the wire
//
// An upload is one PutObject with If-None-Match: *, so that an object is created and never replaced (W2), and with the
// CRC-32C of the whole body in a header, which the store verifies (W4). The body is sent plain: no multipart upload, no
// chunked encoding, no trailer. A read is one GetObject with a range. Deletes go out a thousand keys at a time, and the
// answer has to name every key (W9). Nothing is retried here, and the SDK's own retries are off: objectstore.Manager
// does that.
//
// Over https the body is hashed once, by the Manager. Over plain http the SDK hashes it again, because there the
// signature has to cover it.
//
// # What the store must do
//
// Conditional creates have to be atomic: those of Amazon S3 are, and those of several servers that call themselves
// compatible are not. Where that is known, New refuses the store; what is known of which store, and what is set for it,
// stands in a table, from which [Config].Provider or the endpoint's host chooses. Of any other, package conformance
// tells. Old compatible stores that refuse checksum headers need [Config].NoChecksum.
//
// The credentials need s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket. Without the last one S3 answers 403
// for an object that is missing, and 403 is never taken for "not found" (W7). docs/backends.md has the table, the
// permissions as policies to paste, and the settings of a bucket that hurt.
//
// # Directory buckets
//
// A bucket whose name ends in "--x-s3" is one of S3 Express One Zone. The driver then works in a session, which it makes
// with the first request, or before it where the manager's Warm is called, and renews a minute before it ends; the
// credentials need s3express:CreateSession. Lists come in no order there, on which nothing in walhop depends. PathStyle
// has no effect.
//
// # Credentials that expire
//
// Where the store says that a token or a signature has expired, the credentials are dropped and the request is repeated
// with new ones, once; a second refusal is walstorage.ErrAccessDenied. So it is with a session that the store does not know,
// or not any more.
//
// Where there are no credentials, no request is sent. If the service that gives them cannot be reached, is busy, or answers
// with what is none, the error is walstorage.ErrUnavailable, and another attempt asks again; what it refuses is
// walstorage.ErrAccessDenied. Nothing that it says is taken for an answer of the store.
//
// # Redirects
//
// No redirect is followed: a signature is good for one host, and an upload is one request. A bucket that is in another
// region than requests are signed for is an error of no kind, which names both regions and is not retried.
//
// # Clocks
//
// Requests are signed with the time of this machine. Where that is off by more than the store allows, 15 minutes for
// Amazon S3, they are refused with walstorage.ErrAccessDenied, whose text has the store's RequestTimeTooSkewed. Nothing is
// corrected: when the clock is right again, the next request succeeds.
package s3
