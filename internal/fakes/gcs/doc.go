// Package gcs is a small server that speaks the protocol of Google Cloud Storage as far as a store of segments needs it:
// uploads in one multipart request with preconditions and checksums, metadata of objects and buckets, reads of ranges by
// the JSON and by the XML API, single deletes, lists in pages. It is an http.Handler, for httptest or package pipenet.
//
// What it does it does as the service does, as far as that is documented: conditional creates are atomic, checksums are
// verified, an upload whose body ends early stores nothing, each object has its generation and its CRC-32C. Resumable
// uploads and batches are not there. With [Server.Fault] a test makes it misbehave, and [Server.Requests] tells what came
// over the wire.
package gcs
