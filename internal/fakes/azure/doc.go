// Package azure is a small server that speaks the protocol of Azure Blob Storage as far as a store of segments needs it:
// Put Blob with If-None-Match and a checksum, Get Blob with a range, Get Blob Properties, List Blobs, Delete Blob and
// Blob Batch. It is an http.Handler, for httptest or package pipenet.
//
// What it does it does as the service does, as far as that is documented: creates are atomic, CRC-64 and MD5 are
// verified, lists come in pages, a batch names each blob, errors have their code in a header too. Requests have to be
// authorised: a shared key's signature is computed again, a SAS or a token is looked up; so is each part of a batch.
// With [Server.Fault] a test makes it misbehave, and [Server.Requests] tells what came over the wire.
package azure
