package sim

// reach is something that many seeds must come to, if there are at least so many.
type reach struct {
	what string
	by   int
}

// The numbers of seeds by which a thing must be reached: what one in a few comes to, and what takes a place that is hard
// to find.
const (
	often  = 100
	seldom = 2000
)

// mustReach is every fault and every state that the seeds are there for. One that was never reached is a defect of the
// simulator.
var mustReach = []reach{
	// Leaders and topics.
	{"election, clean", often},
	{"election, unclean", often},
	{"Lead superseded", often},
	{"Follow superseded", often},
	{"Stop and Follow again", often},
	{"partition created", often},
	{"partition deleted", often},
	{"partition created again under the same name", often},
	{"published of a deleted partition", seldom},

	// Zombies.
	{"records taken by a zombie leader", often},
	{"published in an epoch that is over", often},
	{"entry of an old epoch dropped", often},
	{"replaced", often},
	{"zombie wakes", often},
	{"zombie fenced by a newer broker epoch", seldom},

	// Crashes, in each phase.
	{"kill", often},
	{"restart", often},
	{"killed " + phaseNames[reading], often},
	{"killed " + phaseNames[uploading], often},
	{"killed " + phaseNames[stored], often},
	{"killed " + phaseNames[publishing], seldom},
	{"killed " + phaseNames[downloading], often},
	{"killed " + phaseNames[fetched], seldom},
	{"killed " + phaseNames[asking], often},
	{"killed " + phaseNames[reporting], often},

	// Clocks and time.
	{"clock skewed", often},
	{"sealed under a wrong clock", often},
	{"swept under a wrong clock", often},
	{"clock found ahead of the store's", often},
	{"idle minutes", often},
	{"idle hours", often},
	{"steady load", often},

	// The store.
	{"request fails", often},
	{"request is slow", often},
	{"answer lost", often},
	{"object late", often},
	{"object corrupt", often},
	{"object short", often},
	{"object missing", often},
	{"object damaged at rest", often},
	{"object cut short at rest", often},
	{"delete fails", seldom},
	{"delete's answer lost", seldom},
	{"delete failed, tried again", seldom},
	{"swept", often},
	{"delete that raced a reader", often},
	{"gate closed", often},
	{"gate reopened", often},

	// The metadata log.
	{"publication lost", often},
	{"publication's answer lost", often},
	{"publication late", often},
	{"publication stored twice", often},
	{"publication refused", often},
	{"event published again", often},
	{"event twice", often},
	{"event late", often},
	{"event gone", often},
	{"event corrupt", often},
	{"event of an unknown version", often},
	{"events of two brokers reordered", often},
	{"duplicate dropped", often},
	{"gap: missing", often},
	{"gap: corrupt", often},
	{"gap: unknown version", often},

	// The network.
	{"message lost: report", often},
	{"message lost: answer", often},
	{"message lost: fetch", often},
	{"message lost: fetched", seldom},
	{"message slow: report", often},
	{"message slow: answer", often},
	{"report overtaken", often},

	// Leaders' uploaders.
	{"several partitions in a segment", often},
	{"sealed by linger", often},
	{"sealed by full", often},
	{"skip: backlog age", often},
	{"skip: backlog bytes", seldom},
	{"skip: below log start", seldom},
	{"skip: batch too large", seldom},
	{"given up, not stored", often},
	{"given up, publication unsettled", often},
	{"given up, event refused", often},
	{"given up, stuck", often},
	{"given up, expired", seldom},
	{"given up, fenced", seldom},
	{"log cannot be read", often},
	{"panic contained", seldom},

	// Followers.
	{"fallback: segment missing", often},
	{"fallback: segment corrupt", seldom},
	{"fallback: gap", often},
	{"fallback: log end inside a batch", seldom},
	{"fallback: lineage", often},
	{"fallback: stalled", often},
	{"fallback: store unavailable", often},
	{"fallback: access denied", often},
	{"fallback: too far behind", often},
	{"hold ended by an entry", often},
	{"hold in vain", often},
	{"entry evicted", often},
	{"append refused as stale", seldom},
	{"left the ISR", often},

	// Logs.
	{"truncation, diverging", often},
	{"truncation, below the leader's start", seldom},
	{"truncation outside of a fetch", often},
	{"log start moved", often},
	{"log purged", often},
	{"compaction gap", often},
	{"compaction gap around a follower's end", seldom},
	{"burst", often},
	{"batch compared where it is committed", often},
}
