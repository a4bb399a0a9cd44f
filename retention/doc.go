// Package retention deletes segments by age. A segment is a hop between leader and follower and nothing is only in it: an
// hour after its creation every follower that wants it has it, the slow tier has the data, and a reader that comes too late
// falls back to the leader. So there is one rule for live segments, for those that nobody ever published, for those of a
// crashed upload and of a broker that is gone: age.
//
// Each broker runs one [Sweeper] over its own segments, and over those of brokers that the cluster no longer has. A second
// one over the same segments does no harm.
//
// Age is the time in the segment's id, which is its broker's clock. Where the store tells its own time, both must be old:
// a clock that was behind deletes nothing early. An id that lies after its own storing by more than Config.Grace counts by
// the store's time alone, or an id of the year 2100 would stay till then. A sweeper whose own clock is ahead of the store's
// notices that by its newest segments, and reckons with it. If the clock is put right and the broker makes no more segments,
// nothing tells it so: what is there stays longer by as much as the clock was ahead.
//
// Most runs list only what may have come of age since the last one. Once a day, at the start, and when the clock has jumped,
// a run lists everything: it finds segments whose hour had been listed before they appeared there.
//
// A lifecycle rule of the bucket with a day or more is a good second defence, for clusters that are switched off. One that
// is shorter than Config.Retention makes followers fall back with "segment missing".
package retention
