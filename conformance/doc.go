// Package conformance proves that a store, or a metadata log, does what walhop relies on. Its suites are for strangers:
// they assume nothing of a backend but the contract in package walstorage (rules W1 to W12) and package metadata (rules
// M1 to M5), and a failure prints the rule that is broken and what that means for the user's data.
//
// This page is for somebody who has never seen walhop and wants to add a store.
//
// # What walhop asks of a store
//
// The leader of a Kafka partition uploads small objects, called segments, a hundred a second; its followers fetch them a
// few milliseconds later; an hour later they are deleted. A segment is written once and never changed. So a store has
// to create an object only if it is not there, atomically and durably; to read a range exactly; to delete; and to list
// completely. It need not sort, rename, append, lock or keep anything in memory.
//
// # What to write
//
// For anything that is an object store, implement objectstore.Driver: seven methods and some 200 lines. Each call is one
// attempt. objectstore.Manager adds retries, deadlines, argument checks, closing and hooks, once for all stores. What is
// hard about a driver is telling its errors apart, because everybody downstream decides by them:
//
//	the object is not there                           ErrSegmentNotFound
//	the bucket, container or directory is not there   ErrBucketNotFound, never ErrSegmentNotFound
//	the object is there already                       ErrSegmentExists, whatever its bytes are
//	the store asks to try a conflicting create again  ErrUnavailable, never ErrSegmentExists
//	the range ends beyond the object                  ErrInvalidRange, never fewer bytes
//	credentials or permission refused                 ErrAccessDenied, never ErrSegmentNotFound
//	throttled, 5xx, timed out, connection lost        ErrUnavailable, with RetryAfter where the store names a time
//	the body ended early                              ErrUnavailable, never success
//	full                                              ErrNoSpace
//	the checksum of an upload does not match          ErrCorrupt
//	anything else                                     no kind: it is reported and not retried
//
// Return them by walstorage.NewError, with the library's own error as the cause. Switch off the retries of the library
// that you use: one layer retries, and it is not yours. Package objectstore/memory is the reference, package local the
// one to read next.
//
// Where a store is no object store at all, implement walstorage.WalStorageManager itself. You then have to keep all
// twelve rules yourself, and the suite tells you where you do not.
//
// # Running the suite
//
// Ten lines, in a file of your package:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Config{
//			Driver: func(tb testing.TB) objectstore.Driver {
//				driver, err := mystore.NewDriver(tb.Context(), mystore.Config{Bucket: "conformance"})
//				require.NoError(tb, err)
//				return driver
//			},
//		})
//	}
//
// For a manager of your own give Config.Open instead, which names the place for each handle; give both where your
// package has a constructor of its own around a driver, so that it is tested too. A bucket may be used by several runs at
// once, and may hold other objects: every case works below a random prefix of its own, "walhop-conformance/...", deletes
// what it has stored, and fails if something is left.
//
// Run one case by its id, and everything under the race detector, in any order, as often as you like:
//
//	go test -run 'TestConformance/C9$' -v
//	go test -race -shuffle=on -count=3
//
// Against a server in another place the suite takes the time of some 6,000 requests one after another: 6 or 7 minutes at
// 60 ms each, and no case half a minute. That is near the 10 minutes that go test allows, so give it more, -timeout 30m
// say; at 150 ms raise Config.Timeout too.
//
// With the remaining fields of Config you tell the suite how to bring about what it cannot by itself: a refusal (Denied),
// a bucket that is not there (NoBucket), an object that cannot be deleted (Undeletable), a wrong configuration (Invalid),
// a second process (Peer, with PeerMain and Reexecute), a look at what lies behind the lists (Residue). Cases that need
// what you have not given are skipped, and print what they lack. A case that your store cannot pass for a reason that you
// can defend goes into Config.Skip with that reason; it is printed too.
//
// # Reading a failure
//
// A failed case prints three things before the details: what should hold, the rule, and what breaking it means.
//
//	C1 failed: a second create with other bytes is ErrSegmentExists and leaves the bytes, the size and the time alone
//	The rule it checks, W2. Create only: a stored segment is never replaced. Other bytes give ErrSegmentExists, the same bytes count as success.
//	What breaking it means: Bytes that a follower has been told about could change under it, or a retry after a lost answer could fail a segment that is stored.
//
// A case that hangs is ended by a watchdog (Config.Timeout) with the stacks of all goroutines. After every case each
// goroutine that its handles have started must have ended; one that is left is printed with its stack.
//
// # Metadata logs
//
// RunMetadata is the same for a metadata.Log, with group Q. Here, too, ten lines are enough:
//
//	func TestConformance(t *testing.T) {
//		conformance.RunMetadata(t, conformance.MetadataConfig{
//			Open: func(tb testing.TB, topic string, broker int32, epoch int64) metadata.Log {
//				log, err := mylog.New(tb.Context(), mylog.Config{Topic: topic, Broker: broker, BrokerEpoch: epoch})
//				require.NoError(tb, err)
//				return log
//			},
//		})
//	}
//
// Use metadata.Sequencer in your subscription: it tells gaps, duplicates and epochs, and so all logs answer alike.
//
// # Stores that keep files, and crashes
//
// RunCrash is for a store that keeps each segment as a file, by way of a file system that can be handed in: the interface
// local.FS, or one like it. It runs group N over a CrashFS, a file system in memory that makes a call fail, kills a
// process between two calls, cuts the power and loses, in several ways, what was not synced:
//
//	func TestCrashConformance(t *testing.T) {
//		conformance.RunCrash(t, conformance.CrashConfig{
//			Open: func(tb testing.TB, fsys *conformance.CrashFS, store objectstore.Config) (walstorage.WalStorageManager, error) {
//				return mystore.New(tb.Context(), mystore.Config{FS: fsys, Store: store})
//			},
//		})
//	}
//
// Each call of Open is another process, which must do nothing by itself in the background. With CrashConfig.Sweep the
// suite also shows that what dead uploads have left is removed, and what living ones hold is not. The clock by which it is
// old is that of the file system, which has no call for it: make a file, look at its time by Lstat, and remove it, as a
// sweep of a network file system has to do anyway. N11 and N12 are about network file systems; a store that cannot
// lie on one names them in CrashConfig.Skip. A CrashFS is of use in a store's own tests too.
//
// # Backends that speak HTTP, and faults
//
// RunFaults is for a backend that speaks HTTP: a proxy between it and its server loses answers, stalls, cuts, damages and
// throttles. The backend has to take the address of its server as a configuration, and an *http.Client:
//
//	func TestFaults(t *testing.T) {
//		conformance.RunFaults(t, conformance.FaultsConfig{
//			Driver: func(tb testing.TB, at conformance.Endpoint) objectstore.Driver {
//				driver, err := mystore.NewDriver(tb.Context(), mystore.Config{Bucket: "faults", Endpoint: at.URL, HTTPClient: at.Client})
//				require.NoError(tb, err)
//				return driver
//			},
//			Handler: func(tb testing.TB) http.Handler { return fakestore.New("faults") }, // or URL: "http://127.0.0.1:9000"
//			Operation: func(r *http.Request) walstorage.Op { ... },
//		})
//	}
//
// With a Handler, a fake of the server in the test's own process, the suite runs in virtual time what takes long, such as
// an outage under load (J18, which prints its figures); with the URL of a server that runs already that one is skipped,
// and what else waits is shorter. The same configuration but for these two serves both; package s3 has an example of it.
// The proxy keeps the Host header, which signatures cover.
//
// Endpoint.Client is nil where your package shall use its own transport, as in production, and most cases are run so. It
// is set where no other client reaches the server: inside a bubble, over TLS with a certificate made for the test (J24),
// and where connections are refused (J7).
//
// For each fault the suite looks at the number of requests, the kind of the error, what is stored, and the time that it
// took. It counts what comes over the wire, so a library that retries below your driver is found (J20). Status codes say
// enough for most cases; FaultsConfig.Answers tells the suite the protocol's own words where they do not, such as the
// answer of S3 to a create beside another one (C13).
//
// What a first driver over net/http usually gets wrong, and the case that says so: status 206 and the Content-Range have
// to be looked at, both of its ends, before the body is believed (D13, D14), and a range that is shorter than asked for is
// ErrInvalidRange only where the size in Content-Range says that the object ends there (J11). net/http's own server
// answers a range of an empty object with 200 and no body (D9). A create has succeeded only with the status, and best with
// a header, that the protocol has for it: any 2xx may be an error document (J16), or have come before the body was sent,
// which a reader around the Body that counts can tell (J29).
//
// # Measuring a store
//
// RunBenchmarks takes the same Config and measures the calls, serial and parallel, in bounded room:
//
//	func BenchmarkConformance(b *testing.B) {
//		conformance.RunBenchmarks(b, conformance.Config{
//			Driver: func(tb testing.TB) objectstore.Driver { ... },
//		})
//	}
//
// It tells how fast a store is, and nothing of whether it is right.
//
// # What the suite promises, and what it does not prove
//
// Whatever a correct store may do passes: no order of lists, no time of storing, no checksum of the store's is asked for;
// time limits are there for calls that hang and are far above what a loaded machine needs. The suite is itself tested
// against more than a hundred stores and logs that are wrong in one way each: each fails the case named for it and none outside a
// small set, and correct ones fail none.
//
// Run cannot pull a plug: that an upload survives the crash of a machine (the second half of W3) is shown by RunCrash for
// files, and promised by any other store. Nor does it ask whether the store verifies the checksum of an upload (the first
// half of W4), which a file system does not: RunFaults does (K1, K2). What a real disk does on a sync, and whether a network
// file system keeps to what local.FS says, nobody can show but by cutting its power. Run does not speak HTTP: what a driver
// makes of answers on the wire (a body cut short, an ignored range, a conflict) is what RunFaults is for.
package conformance
