// Package replica keeps the fetch request that stays when the bytes travel through the object store: followers tell their
// leader where their logs end, and learn where the leader's ends, what the high watermark is, and whether they diverge. It
// holds both ends of it, the [Reporter] of the follower and the [Tracker] of the leader, and no transport: the broker
// carries a [Reports] there and the [Answer]s back, in its own protocol ([Send]).
//
// ISR and high watermark stay the broker's. What this package keeps for it are the rules in which a straightforward broker
// goes wrong:
//
//   - B1 a report is made after the append, end and epoch read together, and at once; it is not held back by an earlier
//     one that the leader has parked, and one that was overtaken is ignored.
//   - B2 whether a follower is caught up is told by a sample that is held until it is reached. Kafka's own sample,
//     overwritten by every fetch, would take each busy follower out of the ISR. See [Tracker.CaughtUp], also for what the
//     high watermark must wait for.
//   - B3 every check of an ordinary fetch is made, by [Partitions], and a diverging offset is not recorded.
//   - B4 an answer comes when there is something to say, and for a follower in a fallback that includes the leader's log
//     end: an outage of the store must not become polling.
//
// On the leader, the broker calls [Tracker.Moved] after each append, and whenever high watermark, log start or leader epoch
// have moved; it passes each message that arrives to [Tracker.Handle] and works out the ISR and the high watermark in
// TrackerConfig.Recorded. On the follower, it calls [Reporter.Add] after follower.Replicator.Follow, [Reporter.Remove]
// before it stops that handle, and [Reporter.Moved] after each append and truncation and from follower.Hooks.StateChanged;
// it applies high watermark and log start in ReporterConfig.Answered.
//
// A message carries what is new of many partitions, so the traffic between two brokers is bounded by the network's round
// trips and not by the number of partitions: with nothing to say it is one small message per StallAfter.
package replica
