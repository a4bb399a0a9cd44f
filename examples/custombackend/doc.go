// Command custombackend shows how to add a store to walhop: backend.go is a complete backend over bbolt, a store of keys
// and values in one file, in at most 200 lines and written to be copied; main.go stores, lists, fetches and deletes a
// segment through it; conformance_test.go proves it. A test counts the lines.
//
// # What to write, and what not
//
// A backend is an objectstore.Driver: seven methods, each of which makes one attempt. Everything that is the same for all
// stores is in objectstore.Manager, which main.go puts around the driver: retries, the deadline of each attempt, checks of
// arguments, an upload repeated after a lost answer, following the pages of a list, hooks, and Close while calls are under
// way. So there is no retry, no log line and no lock in backend.go.
//
// # The decisions
//
// Each is one that every store asks for in some way; the answers here are bbolt's.
//
//   - Create only (W2). The look and the write are one transaction, and bbolt has one writer at a time: of two creates of
//     a key one finds the other's object. A store on the network needs a condition of its own for this (If-None-Match and
//     the like). Looking first and writing then, in two requests, would lose bytes one day.
//   - Whole (W1) and durable on return (W3). A transaction is seen as a whole or not at all, and the batch returns after
//     bbolt has synced the file. The file's entry in its directory bbolt leaves to the system, so opening syncs the
//     directory. Its option NoSync, which is off, would give W3 away.
//   - Uploads share transactions. A transaction costs two syncs, some milliseconds on a disk, and leaders upload a
//     hundred segments a second. DB.Batch lets the writes that wait at the same time share one, for a wait of at most
//     batchDelay. One that fails is taken out by bbolt and the others run again, so a create that finds an object costs
//     its neighbours a little time and nothing else.
//   - Checksums (W4). The value begins with the CRC-32C that the Manager hands over, after it has been compared with what
//     was read from the body. Stat tells it, so the Manager can tell a repeated upload from a conflicting one without
//     reading the object.
//   - Buffers (W5) and contexts (W8). bbolt cannot be interrupted, so a write runs in a goroutine that owns a copy of
//     the body: a caller whose context ends leaves at once, and the write may still land, whole, as the contract allows.
//     Close waits for it. A read only copies out of the memory map, and looks at the context before.
//   - Exact reads (W6). A range that ends beyond the object is an error, and never fewer bytes. The sum of offset and
//     length is not computed, since it could overflow.
//   - Errors (W7). A missing object, a missing bucket, a full disk, a locked file, a file that may not be written or is
//     damaged, each has its kind; what is not known has none, is not retried, and is reported. See classify.
//   - Deletes (W9) are one transaction: all keys are gone or none is, so there is never a DeleteError to make. A missing
//     key counts as deleted.
//   - Lists (W10). A page is a transaction of its own, which starts at the first key that the page before had no
//     room for: bbolt keeps keys sorted, so nothing that stays is passed over, whatever is stored or deleted in between.
//     A transaction held over the whole list would keep bbolt from using freed pages again.
//   - Limits. A value is written through memory in one piece, so objects end at 32 MiB, far above a usual
//     segment; bbolt itself would take 2 GiB. The Manager keeps larger ones away from Put.
//
// # What this store is not
//
// bbolt locks its file: one process has it, and a second one gets ErrUnavailable after lockTimeout. So this is a store
// for brokers in one process, for tests and for a single machine, and not one that replicates between zones. A read of a
// disk that fails behind the memory map, or a file damaged inside, ends the process.
//
// # Copying it
//
// Take backend.go and conformance_test.go, replace what calls bbolt, and run
//
//	go test -race -run TestConformance -v
//
// A failure prints the rule that is broken and what that means for the data. The page of package conformance tells the
// rest.
package main
