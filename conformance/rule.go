package conformance

// rule is one clause of the contract. A case that fails prints what the rule says and what breaking it does to the
// user's data, so that the reader of a red line need not know the contract by heart.
type rule struct {
	// says is the rule in one sentence.
	says string
	// costs is what a store that breaks the rule does to the data of the people who use it.
	costs string
}

// rules holds W1 to W12 of walstorage.WalStorageManager, what walstorage.Hooks promises, and M1 to M5 of metadata.Log.
var rules = map[string]rule{
	"W1": {
		says:  "Atomic: a reader sees the whole segment or ErrSegmentNotFound, never a part of it.",
		costs: "A follower could take half a segment for a whole one, and the records in the other half would be missing there.",
	},
	"W2": {
		says:  "Create only: a stored segment is never replaced. Other bytes give ErrSegmentExists, the same bytes count as success.",
		costs: "Bytes that a follower has been told about could change under it, or a retry after a lost answer could fail a segment that is stored.",
	},
	"W3": {
		says:  "Durable on return: when UploadSegment returns nil the segment is there, for every handle, and survives a crash.",
		costs: "The leader publishes where the bytes are as soon as the upload returns; followers would look for a segment that is not there.",
	},
	"W4": {
		says:  "Checked: the bytes that come back are the bytes that were stored, not decoded, converted or damaged on the way.",
		costs: "Every slice carries a checksum, so changed bytes are found, but each of them costs a fallback to the leader across zones.",
	},
	"W5": {
		says:  "Borrowed buffers: a call neither changes the data that it is given nor touches data or dst after it has returned.",
		costs: "The leader reuses its buffer for the next segment at once: a late read stores bytes of another segment, a late write damages one under way.",
	},
	"W6": {
		says:  "Exact reads: FetchSegment fills the whole of dst or fails; a range that ends beyond the segment is ErrInvalidRange; an empty dst sends no request.",
		costs: "A short read without an error leaves old bytes of another segment in the buffer, which look like records.",
	},
	"W7": {
		says:  "Typed errors: every failure is a *walstorage.Error of exactly one kind, with the operation and the segment, and the store's own error behind it.",
		costs: "Followers and leaders decide by the kind: a refused request taken for a missing segment hides a wrong permission for days.",
	},
	"W8": {
		says:  "Contexts: a cancelled or expired context ends the call promptly with the caller's own context error, and nothing leaks.",
		costs: "A broker that gives up a partition waits for its calls; one call that does not end holds up a change of leadership.",
	},
	"W9": {
		says:  "Bulk deletes tell the truth: every segment that was not deleted is named in a *DeleteError, all others are gone.",
		costs: "Segments believed deleted stay for ever: the user pays for them, and data that should be gone by its retention is not.",
	},
	"W10": {
		says:  "Lists are complete: a segment whose upload returned before the list began is yielded at least once; a broken continuation is an error.",
		costs: "The sweeper deletes what the list shows: a segment that it does not show is kept and paid for for ever.",
	},
	"W11": {
		says:  "Quiet about secrets: no error text holds a credential, a signed URL or a query string.",
		costs: "Error texts end up in logs and tickets; a signed URL there is a key to the user's bucket.",
	},
	"W12": {
		says:  "Concurrent: every method may be called from many goroutines; Close is idempotent, ends the calls under way, waits for them, and later calls give ErrClosed.",
		costs: "A leader uploads eight segments at once and closes while some are under way; a manager that cannot do this corrupts or hangs a broker.",
	},
	"Hooks": {
		says:  "OperationStart and OperationDone are called once for each call, AttemptStart and AttemptDone once for each request, on every path out.",
		costs: "Whoever watches the store sees calls that never end, or counts them twice, and learns of an outage from the users.",
	},
	"M1": {
		says:  "Publish tells what it knows: how many events are stored, rejected (ErrFenced, ErrInvalid) apart from unknown (ErrUnknownOutcome), without waiting for a reader.",
		costs: "An event reported as stored that is not leaves a segment that no follower ever looks for; one reported as rejected that is stored is published twice under two names.",
	},
	"M2": {
		says:  "One event per segment, in one order per broker: subscribers see the events of a broker in the order of publication.",
		costs: "A follower appends in offset order; events out of order make it park data or fall back to the leader for segments that are there.",
	},
	"M3": {
		says:  "Never silent: a subscriber that misses an event is told by a Gap; a newer broker epoch begins at 0; duplicates are told by the segment id.",
		costs: "A follower that is not told waits for data that will never come, until its stall limit, for every partition in that segment.",
	},
	"M4": {
		says:  "One bad event never stops the stream: it is reported as a Gap and skipped.",
		costs: "One damaged record on the topic would stop replication through the store for every partition of every broker.",
	},
	"M5": {
		says:  "The same events give the same view: any two subscribers see the same events of a broker in the same order.",
		costs: "Two followers would disagree about what the store holds, and only one of them would find a given segment.",
	},
}
