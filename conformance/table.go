package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// storageCases are the cases of Run, in the order in which they run.
var storageCases = slices.Concat(constructionCases, roundTripCases, createCases, rangeCases, listCases, deleteCases,
	keyCases, contextCases, errorCases, concurrencyCases, lifecycleCases, hookCases, claimCases)

// suite is what one entry point runs.
type suite struct {
	name  string     // of the entry point
	cases []testCase // in the order in which they run
}

// suites returns all of them, in the order of the documentation. An id is one case of a suite; a case that is played on
// a driver in one suite and over a network in another has the same id in both.
func suites() []suite {
	return []suite{{"Run", storageCases}, {"RunFaults", faultCases}, {"RunCrash", crashCases}, {"RunMetadata", metadataCases}}
}

// allCases returns the cases of all suites.
func allCases() (all []testCase) {
	for _, suite := range suites() {
		all = append(all, suite.cases...)
	}
	return all
}

// Case is what a case is about, for who keeps tables of them.
type Case struct {
	// Suite is the name of the entry point that runs it: "Run", "RunCrash" or another.
	Suite string
	// ID is the name of the subtest, such as "C9". Ids are stable. One id may be a case of two suites.
	ID string
	// Priority is 1 for what every store must pass in its first release, 2 for the rest.
	Priority int
	// Rule is the clause of the contract that the case checks, such as "W2".
	Rule string
	// Title says in one line what must hold.
	Title string
}

// Cases returns every case of every suite, in the order in which they run.
func Cases() (cases []Case) {
	for _, suite := range suites() {
		for _, tc := range suite.cases {
			cases = append(cases, Case{Suite: suite.name, ID: tc.id, Priority: tc.priority, Rule: tc.rule, Title: tc.title})
		}
	}
	return cases
}

// group is a letter of the list and what its cases prove together.
type group struct{ letter, name, proves string }

// groups are in the order of the documentation.
var groups = []group{
	{"A", "construction", "a handle is made from a right configuration or refused with the field's name, and sees its own place and no other"},
	{"B", "round trip", "what is stored comes back whole and unchanged, at once and on every handle, and buffers stay the caller's"},
	{"C", "create", "a segment is created once, whatever races, retries and lost answers there are: the centre of a log"},
	{"D", "ranges", "reads are exact, at the edges too"},
	{"E", "lists", "lists are complete, end, and hold segments alone"},
	{"F", "deletes", "what is deleted is gone, what is not is named, and nothing else is touched"},
	{"G", "names", "a place may have any name that is allowed, and no name leads into another place"},
	{"H", "contexts", "a caller that gives up gets its own context error, promptly, and nobody else notices"},
	{"I", "errors", "errors tell a program what to do and a person what happened, and give no secret away"},
	{"J", "retries and faults on the wire", "whatever the network and the server do, a call ends right, in bounded time, with the fewest requests"},
	{"K", "integrity on the wire", "bytes that were changed on the way are noticed"},
	{"L", "concurrency", "many calls at once, and nothing is used up by making them"},
	{"M", "lifecycle", "closing ends everything, once, and takes nothing with it"},
	{"N", "crashes, of stores that keep files", "what was acknowledged survives, whatever fails or stops, and what was not leaves nothing behind"},
	{"O", "hooks", "metrics, logs and traces are told what happened, once, with labels that do not grow"},
	{"P", "claims", "what a driver says of itself holds"},
	{"Q", "the metadata log", "every acknowledged event reaches every reader, once, in the order of its broker, or the reader is told of the gap"},
}

// priorityOne lists the cases that a first release of any store has to pass, group by group. Every one of them is a case
// of this package or stands in outTable.
const priorityOne = `
A1 A2 A3 A4 A5
B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11 B13
C1 C2 C3 C4 C7 C9 C10 C11 C12 C13 C14 C16 C17
D1 D2 D3 D4 D5 D6 D7 D9 D10 D11 D12 D13
E1 E2 E3 E4 E5 E6 E7 E8 E9 E10 E12 E13 E14 E15 E16 E17 E18 E19 E20
F1 F2 F3 F4 F5 F6 F9 F10
G1 G2 G3 G4 G5 G7 G9
H1 H2 H3 H4 H5 H6 H7 H8 H11
I1 I2 I3 I4 I5 I6 I7 I8 I11 I12
J1 J2 J3 J4 J5 J6 J7 J8 J9 J10 J11 J12 J13 J14 J15 J18 J19 J20 J23 J24 J25 J28
K1 K2 K3 K4 K6
L1 L2 L3 L4 L5 L7 L10
M1 M2 M3 M4 M5 M6
N1 N2 N3 N4 N5 N6 N7 N8 N9 N10
O1 O2 O3 O5
P1 P2 P4 P5
Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 Q10 Q11 Q12 Q13 Q14 Q15 Q16 Q21 Q22
`

// priorityTwo lists what is worth having behind that, and priorityThree what can wait. A case of either is of priority 2.
const priorityTwo = `
A6 A7
B12 B14 B16 B17
C5 C6 C15 C18
D8 D14 D15 D17
E11 E21 E22 E23
F7 F8 F11
G6 G10
H9 H10
I9 I10 I13
J16 J21 J22 J26 J27
K7 K8 K9
L6 L8 L9 L11
M7 M8
N11 N12 N14 N15 N16 N18
O4 O6 O7 O9
P3
Q17 Q18 Q19 Q20
`

const priorityThree = `
A8
B15
C8
D16 D18
E24
G8
H12
J17
K5
L12
N13 N17
O8
`

// listed is how many entries the list has in each group. Ids above it are cases that were found since.
var listed = map[string]int{
	"A": 8, "B": 17, "C": 18, "D": 18, "E": 24, "F": 11, "G": 10, "H": 12, "I": 13, "J": 28, "K": 9, "L": 12, "M": 8, "N": 18,
	"O": 9, "P": 5, "Q": 22,
}

// outTable holds the entries of the list that are no cases of this package, with the reason.
var outTable = []struct{ id, title, reason string }{
	{"A8", "a configuration is copied: changing it afterwards has no effect", "Go passes a Config by value; that nothing in it is shared is shown per package (objectstore: TestZeroValuesAreDefaults, local: TestNewLeavesNothingBehind)"},
	{"B9", "declared size larger than supplied", "no reader API: UploadSegment takes the bytes themselves, so there is no declared size"},
	{"B10", "declared size smaller than supplied", "no reader API, as B9"},
	{"B11", "the reader fails half way", "no reader API, as B9"},
	{"B14", "an upload tells size, time and version of what it has stored", "UploadSegment returns an error alone; StatSegment tells size and time (E6), and there are no versions: a segment never changes (C1)"},
	{"B16", "user metadata come back", "segments have no metadata of the user's"},
	{"C6", "a create beside a plain overwrite", "no overwrite: every upload is a create (C1)"},
	{"C8", "the loser of a race hears of it before it has sent its bytes", "a store may tell it at the end as well; that an early answer is heeded is J29"},
	{"C18", "a create with a hedge has one success", "no hedges (J26); two uploads of the same bytes at once are L3"},
	{"D16", "a range counted from the end", "FetchSegment takes an offset from the beginning alone"},
	{"D17", "a range tells the size of the whole", "FetchSegment returns an error alone; StatSegment tells the size"},
	{"D18", "a range of a segment that is overwritten meanwhile", "no overwrite: a segment never changes (C1, L4); one that is deleted meanwhile is F8"},
	{"E2", "a prefix is a plain string prefix", "callers give no prefix: lists select by broker and time (E25), and a driver's prefix ends in a slash (E3)"},
	{"E4", "lexicographic byte order", "lists promise no order: S3 Express has none (W10)"},
	{"E5", "an unordered list is sorted or the caller is told", "lists promise no order, and the contract tells every caller so (W10)"},
	{"E12", "start-after", "no start-after: a list is resumed by CreatedAfter (E25)"},
	{"E19", "the consumer's error is returned unchanged", "no callback: the consumer's loop keeps its own error, and leaving it early is E18"},
	{"E21", "a limit of a list is honoured exactly", "ListOptions have no limit: a caller leaves the loop (E18)"},
	{"E24", "a list of tens of thousands needs bounded memory", "how much a list holds cannot be seen from outside; a page at a time is asked for (E8), and package local shows its own (TestListHoldsNoMoreThanTwoPages)"},
	{"G8", "names that Windows reserves, backslashes and colons", "no key of a segment has one, and in a place's name they are refused or kept apart (G2)"},
	{"G10", "symbolic links below the root lead nowhere else", "CrashFS has no links; of package local, on a real disk (TestSymlinksDoNotLeadOut)"},
	{"H10", "what a context carries reaches hooks and requests", "hooks and drivers: O7; the request of its library is shown by each driver (TestContextValues)"},
	{"H12", "a nil context", "Go forbids one, and the contract says nothing of it; objectstore.Manager refuses it for every driver (TestNilContext)"},
	{"I9", "a missing and an existing segment match fs.ErrNotExist and fs.ErrExist", "an error is of one kind and no other (I11), and those of package walstorage are the only ones"},
	{"I10", "each cause of a bulk delete's error is kept", "F12, F6: each failure has its own"},
	{"I13", "an error of the consumer's is not told as one of the store", "no callback, as E19"},
	{"J12", "a damaged body of an answer", "a range has no checksum of the store's: its readers check that of each slice (segment.Reader, F3), and no manager looks into the bytes"},
	{"J23", "an idempotency token is the same in all attempts of a call", "no token: a segment id belongs to one content, and that the name and the bytes are the same in all attempts is J10"},
	{"J26", "hedges: the second attempt wins, the first is cancelled, and they are few", "no hedges: an attempt is followed by another, never accompanied"},
	{"J27", "a proxy of the environment and one's own TLS hold on every way out", "with TLS and a client of one's own every call is J24; the environment is read once for a process, so each driver shows that its own transport heeds it (TestOwnTransport)"},
	{"K3", "a bit changes on the way from the store", "of segment.Reader and the follower, as J12"},
	{"K4", "cut at a border of the framing", "of segment.Reader, which knows the framing; a body that ends early is J11"},
	{"K5", "a checksum survives a copy, a list and another library", "nothing copies segments, and what a checksum of the store's is used for is C9 and B13"},
	{"K7", "content type and encoding are fixed", "they are in FaultsConfig.Required and Headers, and J24 looks at them"},
	{"K8", "the checksum of a range", "a store has none of a range, as J12"},
	{"K9", "an object is damaged at rest", "of segment.Reader, as K3: a store that verifies what it reads answers with ErrCorrupt or ErrUnavailable"},
	{"L8", "a limit of calls at once is honoured, and waiting for it is fair and can be cancelled", "a WalStorageManager has no limit: its callers have, such as leader.Config.MaxInFlightUploads; waiting at the gate is J4 and H6"},
	{"L12", "one processor, and eight", "of the machine, not of a store: GOMAXPROCS=1 go test, and GOMAXPROCS=8"},
	{"N6", "a temporary never lies on another mount than the segment", "the file system that RunCrash hands in is one mount, and all names lie below its root; a store says in its documentation what it asks of a real one"},
	{"N13", "the attribute cache of a network file system", "needs one, and two machines; what package local asks of it is in its documentation"},
	{"N17", "a read-only mount can be read", "a store may refuse to open there; package local shows that it does not have to (TestReadOnly)"},
	{"O6", "the metrics that are listed are those that are there", "no metrics: hooks, whose calls are O1 and whose labels are O5"},
	{"O8", "no hooks cost nothing", "of objectstore.Manager, for every driver (TestAllocationsOfACall)"},
	{"P2", "what is not claimed is refused without effect", "there are no capabilities: every store has all of the contract, and nothing beside it can be asked for"},
	{"P4", "decorators pass the whole suite", "of the decorators, not of a store: walstorage.Observe runs the suite in the tests of package memory"},
	{"P5", "skips are printed and have a reason, and base cases cannot be skipped", "of the suite itself, whose own tests show it (TestSkipsArePrinted, TestConfigIsChecked)"},
	{"Q3", "replay after compaction", "the topic is not compacted: events are dropped by age (M6)"},
	{"Q6", "tombstones and re-creation", "no tombstones: an event is never taken back, and a segment's end is its age"},
	{"Q10", "the broker is not available at start", "Log has no constructor and no broker: that every call ends with its context is Q23, back-off is the log's own test"},
	{"Q14", "a crash between object and event", "of the leader, which uploads first and publishes second (L2), not of a log"},
	{"Q15", "a crash between the event \"deleted\" and the delete", "there is no such event: segments are deleted by age, and a reader that finds none falls back (F5)"},
	{"Q16", "garbage collection never removes what is referenced", "of the retention sweeper, not of a log"},
	{"Q17", "a partition's leader moves, partitions are added, the topic is made anew", "Log has no partitions: of metadata/kafkalog (TestLeaderMoves, TestPartitionsAreAdded, TestTopicIsCreatedAgain)"},
	{"Q18", "the log is cut below a reader's position", "nothing in Log cuts it: a reader is told of what it misses by a gap (Q5), and of a cut by metadata/kafkalog (TestLogIsCut, TestRetentionPassesAReader)"},
	{"Q19", "a snapshot in a local file", "there are no snapshots: who is late reads from a position in the past (Q30)"},
	{"Q20", "a million events: time and memory", "a measurement and no rule; a log keeps nothing for a reader (Q31)"},
}

// priorityOf returns the priority that the list gives an id, 0 for one that it does not have.
func priorityOf(id string) int {
	for i, list := range []string{priorityOne, priorityTwo, priorityThree} {
		if slices.Contains(strings.Fields(list), id) {
			return i + 1
		}
	}
	return 0
}

// renderTables returns doc_table.go: the part of the package documentation that lists the cases and the out-table.
func renderTables() string {
	var b strings.Builder
	b.WriteString("// # The cases\n//\n")
	b.WriteString("// An id is stable and is the name of the subtest. The number after it is the priority: 1 is for a first release. The rule\n")
	b.WriteString("// is named as in package walstorage and package metadata. A case of another suite than Run names the suite, and one that\n")
	b.WriteString("// needs an optional field of the configuration names the field. What each backend of this module makes of each case is\n")
	b.WriteString("// in docs/conformance.md.\n")
	for _, group := range groups {
		if !slices.ContainsFunc(allCases(), func(tc testCase) bool { return tc.group() == group.letter }) {
			continue
		}
		fmt.Fprintf(&b, "//\n// Group %s, %s: %s.\n//\n", group.letter, group.name, group.proves)
		for _, suite := range suites() {
			for _, tc := range suite.cases {
				if tc.group() != group.letter {
					continue
				}
				needs := ""
				if tc.needs != 0 {
					needs = " [" + tc.needs.missing(0) + "]"
				}
				// The cases of Run come without its name: that is where a stranger begins.
				in := ""
				if suite.name != "Run" {
					in = suite.name + ": "
				}
				fmt.Fprintf(&b, "//\t%-4s %d  %-5s %s%s%s\n", tc.id, tc.priority, tc.rule, in, tc.title, needs)
			}
		}
	}
	b.WriteString("//\n// # What is out, and why\n//\n")
	b.WriteString("// The suite was made from a list of what goes wrong with object stores. These entries of it need what the contract does\n")
	b.WriteString("// not have, or are somebody else's to show, so they are no cases. The number is the priority, 1 to 3.\n")
	for _, out := range outTable {
		fmt.Fprintf(&b, "//\n//\t%-4s %d  %s\n//\t        %s\n", out.id, priorityOf(out.id), out.title, out.reason)
	}
	b.WriteString("package conformance\n")
	return b.String()
}
