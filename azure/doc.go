// Package azure stores segments in Azure Blob Storage, as block blobs of one container, and in emulators of it.
//
// [New] is what a broker calls. It needs an account and a container. Credentials are those of azidentity's default
// chain (environment, workload identity, managed identity, tools), or a shared key, a shared access signature or a token
// credential in [Config].
//
// # What goes over the wire
//
// An upload is one Put Blob with If-None-Match: *, so that a blob is created and never replaced (W2), and with the
// CRC-64/NVME of the whole body in a header, which the store verifies (W4). There are no staged blocks, and nothing is
// ever appended (report distribution/distribution#4571). The CRC-32C of the body goes along as metadata, "walhopcrc32c",
// so that an upload that meets an existing blob need not read it to compare. A read is one Get Blob with a range.
// Deletes go out by 256 in a Blob Batch, and the answer has to name each (W9): what it does not name is deleted by
// itself. Nothing is retried here, and the SDK's own retries are off, also those of a client that was handed in:
// objectstore.Manager does that.
//
// # What the store must allow
//
// With Entra ID the role "Storage Blob Data Contributor" on the container is enough. A SAS needs r, c, d and l on the
// container. Add w for an emulator: Azurite wants it where a create meets an existing blob, and the service answers
// UnauthorizedBlobOverwrite there, which is taken for "exists".
//
// The account should have a flat namespace. A hierarchical one works, but keeps an empty directory for each minute in
// which a segment was stored.
//
// # Other clouds, and emulators
//
// [Config].Endpoint is the URL of the blob service: that of a sovereign cloud, of a private endpoint, or of Azurite
// ("http://127.0.0.1:10000/devstoreaccount1"). The default credentials ask the authority that AZURE_AUTHORITY_HOST names;
// tokens are asked for https://storage.azure.com, which is the same in every cloud.
//
// # Credentials that expire
//
// Tokens are asked for in the background, before they expire, and outlast the attempt that needed them first: an attempt
// is shorter than a token may take. Where the store refuses a token (401) it is dropped, and the request may be repeated
// with another, once, which has the claims that the store wants to see; a second refusal is walstorage.ErrAccessDenied.
// Tokens are for storage and nothing else, whatever a store says that it takes. A SAS or a key that has expired is
// walstorage.ErrAccessDenied until the broker is started with another.
//
// Redirects are not followed: a signature is good for one place.
package azure
