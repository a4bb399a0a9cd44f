// Package s3 is a small server that speaks the protocol of Amazon S3 as far as a store of segments needs it: PutObject
// with If-None-Match and a checksum, GetObject with a range, HeadObject, DeleteObjects, ListObjectsV2, HeadBucket and
// CreateSession. It is an http.Handler, for httptest or package pipenet.
//
// What it does it does as S3 does, as far as that is documented: conditional creates are atomic, checksums and content
// digests are verified, lists come in pages and deletes name each key. Signatures are not verified; the access key is.
// With [Server.Fault] a test makes it misbehave, and [Server.Requests] tells what came over the wire.
package s3
