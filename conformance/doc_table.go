// # The cases
//
// An id is stable and is the name of the subtest. The number after it is the priority: 1 is for a first release. The rule
// is named as in package walstorage and package metadata. A case of another suite than Run names the suite, and one that
// needs an optional field of the configuration names the field. What each backend of this module makes of each case is
// in docs/conformance.md.
//
// Group A, construction: a handle is made from a right configuration or refused with the field's name, and sees its own place and no other.
//
//	A1   1  W3    the first operations on a fresh handle work
//	A2   1  W7    a wrong configuration is refused with an error that names the field [Config.Invalid]
//	A3   1  W7    a bucket that does not exist is told apart from a segment that does not exist, on opening or at first use [Config.NoBucket]
//	A4   1  W3    two handles on one place see each other's segments
//	A5   1  W2    handles on different places never see each other, even if the name of one begins with the name of the other
//	A6   2  W2    a slash at the end of the prefix changes nothing
//	A7   2  W10   opening and closing a handle stores nothing
//
// Group B, round trip: what is stored comes back whole and unchanged, at once and on every handle, and buffers stay the caller's.
//
//	B1   1  W4    segments of every size come back byte for byte, from none to the largest
//	B2   1  W4    bytes are bytes: nothing is decoded, converted or cut because of what it looks like
//	B3   1  W3    a segment can be read on the same handle as soon as its upload has returned
//	B4   1  W3    a segment can be read and listed on another handle as soon as its upload has returned
//	B5   1  W1    while a segment is being uploaded a reader finds all of it or nothing
//	B6   1  W5    the caller may overwrite its buffer as soon as the upload has returned
//	B7   1  W5    bytes fetched belong to the caller: changing them changes no later fetch, and no later call changes them
//	B8   1  W5    an upload does not change the data that it is given, whatever comes of it
//	B12  2  W7    a segment larger than the store takes is ErrTooLarge, without a request, and nothing is stored [Config.MaxObjectSize]
//	B13  1  W2    the same upload again succeeds and changes nothing; other bytes of the same size are refused
//	B15  2  W2    the same content under two ids is two segments
//	B17  2  W2    nil and an empty slice are the same empty segment
//
// Group C, create: a segment is created once, whatever races, retries and lost answers there are: the centre of a log.
//
//	C1   1  W2    a second create with other bytes is ErrSegmentExists and leaves the bytes, the size and the time alone
//	C2   1  W2    of many creates at once on one handle exactly one wins, and its bytes are stored
//	C3   1  W2    of many creates at once on several handles exactly one wins, and its bytes are stored
//	C4   1  W2    of creates at once in several processes exactly one wins, and its bytes are stored [Config.Peer]
//	C5   2  W2    a create beside a delete of the same segment ends with the segment whole or gone
//	C7   1  W2    a create that fails leaves nothing behind
//	C9   1  W2    the answer to a create is lost: the create is repeated and ends in success, with one object [Config.Driver]
//	C10  1  W2    the answer to a create is lost and another writer's object is there: ErrSegmentExists, and its bytes stay [Config.Driver]
//	C11  1  W2    the answer is lost and the check is refused: ErrUnavailable around the refusal, and the same upload again succeeds [Config.Driver]
//	C12  1  W8    the answer is lost and the caller cancels meanwhile: the caller's context error, and the same upload again succeeds [Config.Driver]
//	C13  1  W7    "conflict, try again" is tried again and is never "exists" [Config.Driver]
//	C14  1  W7    a driver reports an existing object as ErrSegmentExists, whether the bytes are the same or not, and leaves it alone [Config.Driver]
//	C16  1  W2    a store that ignores the condition of a create is found out: two drivers cannot both create one key [Config.Driver]
//	C17  1  W2    a segment can be created again after it was deleted, with other bytes too
//	C9   1  W2    RunFaults: the answer to a create is lost: the create is repeated and ends in success, with one object
//	C10  1  W2    RunFaults: the answer to a create is lost and another writer's object is there: ErrSegmentExists, and its bytes stay
//	C11  1  W2    RunFaults: the answer is lost and the check is refused: ErrUnavailable around the refusal, and the same upload again succeeds
//	C12  1  W8    RunFaults: the answer is lost and the caller cancels meanwhile: the caller's context error, and the same upload again succeeds
//	C13  1  W7    RunFaults: "conflict, try again" is tried again and is never "exists" [FaultsConfig.Answers.Conflict]
//	C14  1  W7    RunFaults: a driver reports an existing object as ErrSegmentExists, whether the bytes are the same or not, and leaves it alone
//	C15  2  W2    RunFaults: 429 in a race of creates: one wins, the others get ErrSegmentExists, and nobody sends more than was refused
//
// Group D, ranges: reads are exact, at the edges too.
//
//	D1   1  W6    the whole segment, its first byte, its last and bytes from its middle
//	D2   1  W6    from any offset to the end, and from and to every border that a store may have inside
//	D3   1  W6    a range that ends beyond the segment is ErrInvalidRange, and is never cut short
//	D4   1  W6    a range that begins at the end of the segment is ErrInvalidRange
//	D5   1  W6    a range that begins beyond the end is ErrInvalidRange, not a missing segment, and is not tried again
//	D6   1  W6    an empty dst is nil without a request, wherever the range begins and whether the segment is there or not
//	D7   1  W7    a negative offset and an id that names no segment are ErrInvalidArgument without a request
//	D8   2  W6    a range whose end overflows 64 bits is ErrInvalidRange or ErrInvalidArgument, and reads nothing
//	D9   1  W6    every range of an empty segment but the empty one is ErrInvalidRange
//	D10  1  W7    a range of a missing segment is ErrSegmentNotFound, whatever the range
//	D11  1  W6    two hundred random ranges, right and wrong, against a model
//	D12  1  W6    a body that ends early is asked for again, or is an error; never short data without one [Config.Driver]
//	D15  2  W12   disjoint ranges of one segment read at once
//	D13  1  W6    RunFaults: a server that ignores the range and answers 200 with the whole object: the right bytes, or an error
//	D14  2  W6    RunFaults: a Content-Range that is not what was asked for, or none: an error, and asked for again
//
// Group E, lists: lists are complete, end, and hold segments alone.
//
//	E1   1  W10   the list of an empty place is empty and no error
//	E3   1  W10   brokers, epochs and hours whose names begin alike are kept apart
//	E6   1  W10   sizes are right in lists, and the store's time, where it tells one, is the time of storing
//	E7   1  W10   a list sees every upload and delete that has returned before it, on any handle
//	E8   1  W10   pages of one, two and three segments, and empty pages, are all followed [Config.Driver]
//	E9   1  W10   nothing is lost where the list ends exactly with a page, or one segment before or after [Config.Driver]
//	E10  1  W10   a list of several pages of the store is complete, also where it ends with a page, or one segment before or after
//	E11  2  W10   segments stored and deleted during a list do not keep the others out of it
//	E13  1  W10   a continuation token that comes again is an error and no endless loop [Config.Driver]
//	E14  1  W10   a page that says "more" without a continuation token is an error, and not the end of the list [Config.Driver]
//	E15  1  W10   a page that fails and is asked for again leaves no gap [Config.Driver]
//	E16  1  W10   lists hold segments only: no temporaries, no sidecars, no folders, no foreign objects, which also stay where they are
//	E17  1  W8    a list ends with the context error when it is cancelled before, during or at the end
//	E18  1  W10   a caller that stops early leaves nothing behind, and the next list is complete
//	E20  1  W10   the extreme ids survive the way through a list and can be read
//	E22  2  W12   two lists at once on one handle do not disturb each other
//	E23  2  W10   segments can be deleted while ranging over their own list
//	E25  1  W10   the options of a list select by broker and creation time exactly, across hours and days
//	E13  1  W10   RunFaults: a continuation token that comes again is an error and no endless loop
//	E14  1  W10   RunFaults: a page that says "more" without a continuation token is an error, and not the end of the list [FaultsConfig.WithoutToken]
//	E15  1  W10   RunFaults: a page that fails and is asked for again leaves no gap
//
// Group F, deletes: what is deleted is gone, what is not is named, and nothing else is touched.
//
//	F1   1  W9    a deleted segment is gone for reads, ranges, stats and lists, on every handle
//	F2   1  W9    deleting a segment that does not exist is success (yandex/ch-backup#69)
//	F3   1  W9    deleting twice, one after the other and at once, is success
//	F4   1  W9    a delete touches exactly the segments that it names
//	F5   1  W9    no ids send no request; 1, 1,000 and 1,001 ids and repeated ids are all deleted
//	F6   1  W9    a segment that the store refuses to delete is named in a *DeleteError, and the others are gone [Config.Undeletable]
//	F7   2  W9    a bulk delete that is cancelled names every segment that it has not deleted, those not tried included [Config.Driver]
//	F8   2  W6    a delete beside a fetch: the fetch has the whole segment, or finds none
//	F9   1  W3    an upload beside deletes in the same minute never fails, across processes where the configuration has a peer
//	F10  1  W9    the answer to a delete is lost: the delete is repeated and ends in success [Config.Driver]
//	F11  2  W9    an id that names no segment is an argument error that says so
//	F12  1  W9    a driver's failures per key come back per segment, each with its own cause; the rest of all batches is gone [Config.Driver]
//	F10  1  W9    RunFaults: the answer to a delete is lost: the delete is repeated and ends in success
//
// Group G, names: a place may have any name that is allowed, and no name leads into another place.
//
//	G1   1  W2    places may be named with every character that is allowed, in any position
//	G2   1  W2    names that are written in several ways, or quoted on the wire, are refused or are places of their own
//	G3   1  W2    the longest place holds the longest segment id, and one that is longer still is refused or a place of its own
//	G4   1  W2    names with empty parts, with "." and "..", and with slashes at odd places are refused or are places of their own
//	G5   1  W2    names with NUL, control characters or bytes that are no UTF-8 are refused or are places of their own
//	G6   2  W2    places whose names differ in case alone never see each other
//	G7   1  W2    places may lie within one another, down to a segment's own name: each keeps its segments
//	G9   1  W10   places named like temporaries, sidecars and lock files are places like any other
//
// Group H, contexts: a caller that gives up gets its own context error, promptly, and nobody else notices.
//
//	H1   1  W8    a context cancelled before the call: context.Canceled, no request, and nothing has changed
//	H2   1  W8    a deadline that has passed before the call: context.DeadlineExceeded, and nothing has changed
//	H3   1  W8    an upload that is cancelled under way returns promptly with the context error, or has succeeded
//	H4   1  W1    what a cancelled upload leaves is the whole segment or nothing, and the same upload again succeeds
//	H5   1  W8    a fetch that is cancelled under way returns promptly, and the next one works
//	H6   1  W8    a call that waits between two attempts returns promptly when its context ends [Config.Driver]
//	H7   1  W7    a cancel and a deadline can be told apart
//	H8   1  W7    the deadline of one attempt is not reported as the caller's, and the next attempt is made [Config.Driver]
//	H9   2  W8    a deadline of the caller that is shorter than an attempt ends the call when it passes, as context.DeadlineExceeded [Config.Driver]
//	H11  1  W8    one caller's cancel does not disturb another's call [Config.Driver]
//
// Group I, errors: errors tell a program what to do and a person what happened, and give no secret away.
//
//	I1   1  W7    every kind of error comes from every method that can give it
//	I2   1  W7    fetch, range and stat of a missing segment give the same ErrSegmentNotFound, whether it never was or is gone, and ask once
//	I3   1  W7    a missing bucket is no missing segment [Config.NoBucket]
//	I4   1  W7    a refused request is ErrAccessDenied and never a missing segment, whether the segment is there or not [Config.Denied]
//	I5   1  W7    the store's own error can be reached behind the kind by errors.As [Config.Driver]
//	I6   1  W7    every error is a *walstorage.Error with the operation, the segment and the number of requests
//	I7   1  W7    the text of an error names the operation and the segment
//	I8   1  W11   signed URLs, query strings and credentials in a driver's error do not reach the text of the error [Config.Driver]
//	I11  1  W7    an error is of one kind and no other, and KindOf agrees with errors.Is
//	I12  1  W7    kinds survive wrapping and a decorating manager
//	I8   1  W11   RunFaults: signed URLs, query strings and credentials in a driver's error do not reach the text of the error
//
// Group J, retries and faults on the wire: whatever the network and the server do, a call ends right, in bounded time, with the fewest requests.
//
//	J1   1  W7    RunFaults: 500, 502 or 504 once: every call is repeated and succeeds, with one request more
//	J2   1  W7    RunFaults: 503 once: every call is repeated and succeeds, with one request more
//	J3   1  W7    RunFaults: Retry-After, in seconds or as a date, is waited for, up to the cap
//	J4   1  W7    RunFaults: throttled for a long time: ErrUnavailable for all who wait, under a load that is bounded and spread
//	J5   1  W7    RunFaults: 503 to an upload is tried again, whether the store has carried it out or not
//	J6   1  W7    RunFaults: 408, and what else the protocol has for a request that came too slowly, is tried again
//	J7   1  W7    RunFaults: a refused connection and a name that does not resolve are ErrUnavailable, and end with the trouble
//	J8   1  W7    RunFaults: a connection that is reset before the body of the request, in its middle or behind it: the call is repeated and succeeds
//	J9   1  W7    RunFaults: a connection that is reset after the server has carried the request out: the call is repeated and succeeds (C9, F10)
//	J10  1  W5    RunFaults: every attempt of an upload sends the same name and the same bytes, whole
//	J11  1  W6    RunFaults: a body that is cut short, whether its length tells so or not, is asked for again, or is ErrUnavailable; never short data
//	J13  1  W8    RunFaults: an answer that does not begin ends the attempt at its deadline, and the next one succeeds; the deadline is not the caller's (H8)
//	J14  1  W8    RunFaults: a server that reads nothing of an upload ends the attempt at its deadline, and the next one succeeds
//	J15  1  W8    RunFaults: a download that stops in its middle ends the attempt at its deadline, and the next one succeeds
//	J16  2  W7    RunFaults: an error document under status 200 is no success
//	J17  2  W7    RunFaults: a redirect, as of a wrong region: the right result, or soon an error that says neither missing nor there
//	J18  1  W7    RunFaults: 503 for 5 s at 100 uploads a second, then healthy: none is lost, at most 1.1 requests for an upload, recovered in under 2 s [FaultsConfig.Handler (virtual time)]
//	J19  1  W7    RunFaults: refused, wrong, missing, existing and out of range: one request, and the right kind
//	J20  1  W8    RunFaults: attempts and time never exceed their limits: one layer retries, and no other below it
//	J21  2  W7    RunFaults: credentials that have expired are renewed once, and the call succeeds; where that does not help it is ErrAccessDenied, soon [FaultsConfig.Answers.Expired]
//	J22  2  W7    RunFaults: a server whose clock is a quarter of an hour off: calls succeed, or are refused as what they are, and succeed when it is right again
//	J24  1  W4    RunFaults: the wire form, over TLS: HTTP/1.1, an upload of any size is one request with one plain body, and no header is there that is not allowed
//	J25  1  W7    RunFaults: a kept connection that the server has closed meanwhile is not seen by the caller
//	J28  1  W2    RunFaults: thousands of calls of all kinds under a random schedule of faults see what a model says
//	J29  1  W8    RunFaults: an answer that comes before the body of the upload was read ends the attempt, with its meaning, and a success that comes so early is none
//	J30  2  W12   RunFaults: a request that hangs holds up no other call of its handle
//
// Group K, integrity on the wire: bytes that were changed on the way are noticed.
//
//	K1   1  W4    RunFaults: an upload whose checksum is not that of its bytes is ErrCorrupt, and nothing is stored [FaultsConfig.Driver]
//	K2   1  W4    RunFaults: a bit that changes on the way to the store is noticed: the upload fails with ErrCorrupt, or is repeated; nothing wrong is stored
//	K6   1  W4    RunFaults: what looks compressed comes back as it was stored, also where the server calls it gzip
//
// Group L, concurrency: many calls at once, and nothing is used up by making them.
//
//	L1   1  W12   forty callers with segments of their own do not disturb each other
//	L2   1  W12   workers that upload, fetch, stat, list and delete at random see what a model says
//	L3   1  W2    many uploads of the same bytes at once all succeed
//	L4   1  W2    a reader beside refused overwrites always sees the first bytes, whole
//	L5   1  W12   all methods at once on one handle
//	L6   2  W2    creates, fetches and deletes of one segment at once have answers that some order of them explains
//	L7   1  W5    a buffer that is overwritten right after a cancelled upload has returned never shows in the store (mem9-ai/drive9#845)
//	L10  1  W12   hundreds of calls, failed and cancelled ones among them, leave no open files, no goroutines and no buffers behind
//	L11  2  W12   a hundred handles opened, used and closed
//	L9   2  W12   RunFaults: sixteen uploads at once, again and again, as at a hundred a second, and calls that fail: after the first hardly a connection is opened
//
// Group M, lifecycle: closing ends everything, once, and takes nothing with it.
//
//	M1   1  W12   closing twice is nil
//	M2   1  W12   closing from several goroutines beside all other calls: each call ends well or with ErrClosed
//	M3   1  W12   every call after Close is ErrClosed, without a request
//	M4   1  W12   Close ends the calls under way, waits until they have let go, and closes the driver last [Config.Driver]
//	M5   1  W12   after calls of every outcome and Close no goroutine is left (this is checked after every other case too)
//	M6   1  W10   a list that is never ranged over, and one that is left early, hold nothing
//	M8   2  W3    Close deletes nothing
//	M7   2  W12   RunFaults: Close leaves the caller's own HTTP client alone, and its connections
//
// Group N, crashes, of stores that keep files: what was acknowledged survives, whatever fails or stops, and what was not leaves nothing behind.
//
//	N1   1  W3    RunCrash: the order of calls: write, sync the file, give it its name, sync the directory, return
//	N2   1  W3    RunCrash: a power cut before any call of a story of two processes: what was acknowledged is there, all else is whole or absent
//	N3   1  W3    RunCrash: the names of new directories are synced, up to the root, whoever has made them
//	N4   1  W7    RunCrash: ENOSPC, EDQUOT, EIO, EROFS and EMFILE at each call of an upload: the right kind, no residue, and the next try succeeds
//	N5   1  W3    RunCrash: a sync that fails is never ignored, and the file is not trusted after it
//	N7   1  W1    RunCrash: a process is killed before any call of an upload: nothing of it shows, and a sweep removes what it has left [CrashConfig.Sweep]
//	N8   1  W3    RunCrash: a sweep by another process, before any call of an upload, does the upload no harm, however long it takes [CrashConfig.Sweep]
//	N9   1  W2    RunCrash: the names of temporaries are unique: no two uploads ever make the same file, on one handle or on several
//	N10  1  W2    RunCrash: two processes, one within any call of the other: one create wins (C4), the list has it (E7), a delete beside it does no harm (F9)
//	N11  2  W7    RunCrash: ESTALE at each call of a fetch, a stat and a list is tried again or is ErrUnavailable, never a missing segment
//	N12  2  W2    RunCrash: a network file system loses the answer to a call that makes a name and says EEXIST of the caller's own: the upload succeeds
//	N14  2  W7    RunCrash: EACCES and EPERM at each call of an upload, a fetch, a stat, a list and a delete: ErrAccessDenied, never a missing segment
//	N15  2  W2    RunCrash: a file system without hard links is refused, on opening or by each upload, or creates are atomic there in another way
//	N16  2  W3    RunCrash: a file system that cannot sync files or directories is refused, on opening or by each upload
//	N18  2  W8    RunCrash: a disk that does not answer a sync holds up no cancel, and the handle can be used when it answers
//
// Group O, hooks: metrics, logs and traces are told what happened, once, with labels that do not grow.
//
//	O1   1  Hooks the hooks of an operation and of its attempts are called once at the start and once at the end, however it ends
//	O2   1  Hooks the hooks are told the segment, the bytes, the duration, the number of attempts and the kind of error that the caller gets
//	O3   1  Hooks a missing or existing segment, a cancel and a closed manager are told by their kinds, so that nobody counts them as failures of the store
//	O4   2  Hooks a hook that panics takes its own call with it and nothing else
//	O5   1  Hooks what is fit for a label has few values, whatever segments and errors there are: the operation, the call, the kind of error
//	O7   2  Hooks contexts lead from the caller through the operation and the attempt to the driver, so that spans have parents
//	O9   2  W11   what is logged while a store is down holds no payload and nothing of a signed URL or a credential [Config.Driver]
//
// Group P, claims: what a driver says of itself holds.
//
//	P1   1  W9    a driver takes as many keys in one delete as it says, and its optional abilities work [Config.Driver]
//	P3   2  W9    the limits of a driver are constants: the same on every handle, before and after its calls [Config.Driver]
//
// Group Q, the metadata log: every acknowledged event reaches every reader, once, in the order of its broker, or the reader is told of the gap.
//
//	Q1   1  M1    RunMetadata: an acknowledged event is delivered, whole, one by one and in batches
//	Q2   1  M5    RunMetadata: a replay gives what live readers have seen, every time the same
//	Q4   1  M3    RunMetadata: an event published again, unchanged, is delivered once
//	Q5   1  M3    RunMetadata: a jump in the sequence is a gap that names what is missing; what comes late is delivered
//	Q7   1  M4    RunMetadata: an event that cannot be read is a gap, and those after it are delivered [MetadataConfig.Damage]
//	Q8   1  M3    RunMetadata: an event whose publication begins after Subscribe has returned is delivered, one from before it is not
//	Q9   1  M3    RunMetadata: a topic that is written to without pause keeps no subscriber from starting
//	Q11  1  M1    RunMetadata: cancelling one publication fails no other, of the same broker or of another
//	Q12  1  M1    RunMetadata: a publication whose outcome is unknown, published again unchanged, is one event for readers [MetadataConfig.Unknown]
//	Q13  1  M1    RunMetadata: a writer of an older epoch of its broker is fenced (L6); readers see the new epoch begin at 0
//	Q21  1  M5    RunMetadata: several subscribers see the same events in the same order of each broker, while brokers publish at once
//	Q22  1  M1    RunMetadata: closing a subscription or its log ends Next with ErrClosed, and nothing of the other handles
//	Q23  1  M1    RunMetadata: a cancelled or expired context ends Publish, Subscribe and Next with the caller's error; a subscription stays usable
//	Q24  1  M1    RunMetadata: Publish keeps no event, and an event cloned before the next call of Next stays what it was
//	Q25  1  M2    RunMetadata: twenty brokers publish at once, each in its own order
//	Q26  1  M2    RunMetadata: an event of thousands of slices, as large as a leader makes them, arrives whole
//	Q27  1  M1    RunMetadata: an event that can never be stored is ErrInvalid, nothing of it is stored, and the log goes on
//	Q28  1  M1    RunMetadata: what Publish says is stored is a prefix: the valid events before an invalid one, and no events are nil
//	Q29  1  M1    RunMetadata: Close may be called often, from several goroutines; later calls give ErrClosed, and what is stored stays
//	Q30  1  M3    RunMetadata: a position in the past delivers everything stored since then
//	Q31  1  M1    RunMetadata: Publish waits for no reader: a subscription that nobody reads holds nobody up, and has everything later
//	Q32  1  M1    RunMetadata: a wrong configuration is refused with an error that names the field [MetadataConfig.Invalid]
//
// # What is out, and why
//
// The suite was made from a list of what goes wrong with object stores. These entries of it need what the contract does
// not have, or are somebody else's to show, so they are no cases. The number is the priority, 1 to 3.
//
//	A8   3  a configuration is copied: changing it afterwards has no effect
//	        Go passes a Config by value; that nothing in it is shared is shown per package (objectstore: TestZeroValuesAreDefaults, local: TestNewLeavesNothingBehind)
//
//	B9   1  declared size larger than supplied
//	        no reader API: UploadSegment takes the bytes themselves, so there is no declared size
//
//	B10  1  declared size smaller than supplied
//	        no reader API, as B9
//
//	B11  1  the reader fails half way
//	        no reader API, as B9
//
//	B14  2  an upload tells size, time and version of what it has stored
//	        UploadSegment returns an error alone; StatSegment tells size and time (E6), and there are no versions: a segment never changes (C1)
//
//	B16  2  user metadata come back
//	        segments have no metadata of the user's
//
//	C6   2  a create beside a plain overwrite
//	        no overwrite: every upload is a create (C1)
//
//	C8   3  the loser of a race hears of it before it has sent its bytes
//	        a store may tell it at the end as well; that an early answer is heeded is J29
//
//	C18  2  a create with a hedge has one success
//	        no hedges (J26); two uploads of the same bytes at once are L3
//
//	D16  3  a range counted from the end
//	        FetchSegment takes an offset from the beginning alone
//
//	D17  2  a range tells the size of the whole
//	        FetchSegment returns an error alone; StatSegment tells the size
//
//	D18  3  a range of a segment that is overwritten meanwhile
//	        no overwrite: a segment never changes (C1, L4); one that is deleted meanwhile is F8
//
//	E2   1  a prefix is a plain string prefix
//	        callers give no prefix: lists select by broker and time (E25), and a driver's prefix ends in a slash (E3)
//
//	E4   1  lexicographic byte order
//	        lists promise no order: S3 Express has none (W10)
//
//	E5   1  an unordered list is sorted or the caller is told
//	        lists promise no order, and the contract tells every caller so (W10)
//
//	E12  1  start-after
//	        no start-after: a list is resumed by CreatedAfter (E25)
//
//	E19  1  the consumer's error is returned unchanged
//	        no callback: the consumer's loop keeps its own error, and leaving it early is E18
//
//	E21  2  a limit of a list is honoured exactly
//	        ListOptions have no limit: a caller leaves the loop (E18)
//
//	E24  3  a list of tens of thousands needs bounded memory
//	        how much a list holds cannot be seen from outside; a page at a time is asked for (E8), and package local shows its own (TestListHoldsNoMoreThanTwoPages)
//
//	G8   3  names that Windows reserves, backslashes and colons
//	        no key of a segment has one, and in a place's name they are refused or kept apart (G2)
//
//	G10  2  symbolic links below the root lead nowhere else
//	        CrashFS has no links; of package local, on a real disk (TestSymlinksDoNotLeadOut)
//
//	H10  2  what a context carries reaches hooks and requests
//	        hooks and drivers: O7; the request of its library is shown by each driver (TestContextValues)
//
//	H12  3  a nil context
//	        Go forbids one, and the contract says nothing of it; objectstore.Manager refuses it for every driver (TestNilContext)
//
//	I9   2  a missing and an existing segment match fs.ErrNotExist and fs.ErrExist
//	        an error is of one kind and no other (I11), and those of package walstorage are the only ones
//
//	I10  2  each cause of a bulk delete's error is kept
//	        F12, F6: each failure has its own
//
//	I13  2  an error of the consumer's is not told as one of the store
//	        no callback, as E19
//
//	J12  1  a damaged body of an answer
//	        a range has no checksum of the store's: its readers check that of each slice (segment.Reader, F3), and no manager looks into the bytes
//
//	J23  1  an idempotency token is the same in all attempts of a call
//	        no token: a segment id belongs to one content, and that the name and the bytes are the same in all attempts is J10
//
//	J26  2  hedges: the second attempt wins, the first is cancelled, and they are few
//	        no hedges: an attempt is followed by another, never accompanied
//
//	J27  2  a proxy of the environment and one's own TLS hold on every way out
//	        with TLS and a client of one's own every call is J24; the environment is read once for a process, so each driver shows that its own transport heeds it (TestOwnTransport)
//
//	K3   1  a bit changes on the way from the store
//	        of segment.Reader and the follower, as J12
//
//	K4   1  cut at a border of the framing
//	        of segment.Reader, which knows the framing; a body that ends early is J11
//
//	K5   3  a checksum survives a copy, a list and another library
//	        nothing copies segments, and what a checksum of the store's is used for is C9 and B13
//
//	K7   2  content type and encoding are fixed
//	        they are in FaultsConfig.Required and Headers, and J24 looks at them
//
//	K8   2  the checksum of a range
//	        a store has none of a range, as J12
//
//	K9   2  an object is damaged at rest
//	        of segment.Reader, as K3: a store that verifies what it reads answers with ErrCorrupt or ErrUnavailable
//
//	L8   2  a limit of calls at once is honoured, and waiting for it is fair and can be cancelled
//	        a WalStorageManager has no limit: its callers have, such as leader.Config.MaxInFlightUploads; waiting at the gate is J4 and H6
//
//	L12  3  one processor, and eight
//	        of the machine, not of a store: GOMAXPROCS=1 go test, and GOMAXPROCS=8
//
//	N6   1  a temporary never lies on another mount than the segment
//	        the file system that RunCrash hands in is one mount, and all names lie below its root; a store says in its documentation what it asks of a real one
//
//	N13  3  the attribute cache of a network file system
//	        needs one, and two machines; what package local asks of it is in its documentation
//
//	N17  3  a read-only mount can be read
//	        a store may refuse to open there; package local shows that it does not have to (TestReadOnly)
//
//	O6   2  the metrics that are listed are those that are there
//	        no metrics: hooks, whose calls are O1 and whose labels are O5
//
//	O8   3  no hooks cost nothing
//	        of objectstore.Manager, for every driver (TestAllocationsOfACall)
//
//	P2   1  what is not claimed is refused without effect
//	        there are no capabilities: every store has all of the contract, and nothing beside it can be asked for
//
//	P4   1  decorators pass the whole suite
//	        of the decorators, not of a store: walstorage.Observe runs the suite in the tests of package memory
//
//	P5   1  skips are printed and have a reason, and base cases cannot be skipped
//	        of the suite itself, whose own tests show it (TestSkipsArePrinted, TestConfigIsChecked)
//
//	Q3   1  replay after compaction
//	        the topic is not compacted: events are dropped by age (M6)
//
//	Q6   1  tombstones and re-creation
//	        no tombstones: an event is never taken back, and a segment's end is its age
//
//	Q10  1  the broker is not available at start
//	        Log has no constructor and no broker: that every call ends with its context is Q23, back-off is the log's own test
//
//	Q14  1  a crash between object and event
//	        of the leader, which uploads first and publishes second (L2), not of a log
//
//	Q15  1  a crash between the event "deleted" and the delete
//	        there is no such event: segments are deleted by age, and a reader that finds none falls back (F5)
//
//	Q16  1  garbage collection never removes what is referenced
//	        of the retention sweeper, not of a log
//
//	Q17  2  a partition's leader moves, partitions are added, the topic is made anew
//	        Log has no partitions: of metadata/kafkalog (TestLeaderMoves, TestPartitionsAreAdded, TestTopicIsCreatedAgain)
//
//	Q18  2  the log is cut below a reader's position
//	        nothing in Log cuts it: a reader is told of what it misses by a gap (Q5), and of a cut by metadata/kafkalog (TestLogIsCut, TestRetentionPassesAReader)
//
//	Q19  2  a snapshot in a local file
//	        there are no snapshots: who is late reads from a position in the past (Q30)
//
//	Q20  2  a million events: time and memory
//	        a measurement and no rule; a log keeps nothing for a reader (Q31)
package conformance
