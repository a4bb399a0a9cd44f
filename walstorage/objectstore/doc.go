// Package objectstore makes a walstorage.WalStorageManager of anything that can store, read, list and delete objects:
// [New] wraps a [Driver], which makes one attempt per call, in a [Manager], which does all the rest.
//
// # What the Manager does
//
// It checks arguments before any request; builds the object keys; gives each attempt its own deadline, which grows with
// the size; repeats what is worth repeating, with full jitter and the store's Retry-After; settles the lost answer to a
// create; follows the pages of a list and the batches of a delete; strips errors of credentials and query strings; calls
// the hooks exactly once for each operation and each attempt; and ends everything on Close.
//
// Retries go through a gate, one for uploads, one for reads and one for deletes and lists. After ten failures in a row,
// not of one call but of all calls of that kind, it shuts: one probe at a time goes out for all, 50 ms to 1 s apart, and
// the first answer lets the waiting calls go, a thousand in the first second, then twice as many each second. So an
// outage costs the store a request a second and loses no call whose context lives through it.
//
// # How to write a driver
//
// A driver is seven methods over your store's library, some 200 lines. Each method is one attempt:
//
//   - Switch the library's own retries off. Two layers of retries multiply.
//   - Map what the library returns to the kinds of package walstorage, by walstorage.NewError(kind, err): missing object
//     is ErrSegmentNotFound, missing bucket ErrBucketNotFound, a refusal ErrAccessDenied and never "not found",
//     throttling, 5xx, resets and short bodies ErrUnavailable, with RetryAfter where the store names a time (see
//     [RetryAfter]). What you do not know, return as it is: it is not retried, and reported.
//   - Put must be create only, by the store's own condition (If-None-Match and the like): "exists" is ErrSegmentExists
//     whatever the bytes are, "somebody else is writing, try again" is ErrUnavailable. Never look first and write then.
//     Give the transport the [Body] itself as the reader, with Len as the content length: it can be read again from the
//     start, and it stops to give bytes when the attempt is over. Let the store verify the CRC32C.
//   - Get must fill dst whole or return an error. Count what you read; a store that ignores the range is an error too.
//   - Delete returns a [*DeleteError] where some keys failed. A missing object is no failure.
//   - List returns pages in any order, see [NextToken] for stores that say apart whether there is more.
//   - Where the first request takes longer than the others, be a [Warmer] too.
//   - Honour the context, and return only when nothing of yours, or of the library's, touches the buffers any more.
//
// Then let package conformance prove it: it has a case for every sentence above. examples/custombackend is a whole driver
// to copy; package memory is the reference, and has faults by script.
package objectstore
