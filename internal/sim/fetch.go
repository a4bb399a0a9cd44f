package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// What a leader refuses a fetch or a report with (B3).
var (
	errNotLeader    = errors.New("not the leader of the partition")
	errFencedEpoch  = errors.New("leader epoch is older than the leader's")
	errUnknownEpoch = errors.New("leader epoch is newer than the leader's")
	errNotReplica   = errors.New("not a replica of the partition")
	errStaleBroker  = errors.New("broker epoch is stale")
)

// fetchRequest is the ordinary replica fetch of one partition.
type fetchRequest struct {
	replica                int32
	brokerEpoch            int64
	part                   *Partition
	leaderEpoch, lastEpoch int32
	offset                 int64
}

// fetchAnswer is what the leader answers with, unless it refuses.
type fetchAnswer struct {
	diverging     *memory.EpochEnd
	outOfRange    bool
	start, end    int64 // the leader's log
	highWatermark int64
	batches       []byte
}

// fetchBytes is how much one ordinary fetch brings at most.
const fetchBytes = 256 << 10

// ordinaryFetch is the broker's ordinary way to replicate, in Kafka's manner: the answer says where the logs part, and
// the follower truncates inside the fetch. It implements follower.LeaderFetcher.
type ordinaryFetch struct{ process *process }

var _ follower.LeaderFetcher = (*ordinaryFetch)(nil)

// FetchFromLeader implements follower.LeaderFetcher. It asks at least once, and returns nil only if its last answer
// neither diverged nor was out of range (S1).
func (f *ordinaryFetch) FetchFromLeader(ctx context.Context, partition segment.TopicIDPartition, leaderEpoch int32, to int64) (leaderLEO int64, err error) {
	p := f.process
	r := p.role(partition.Key())
	if r == nil {
		return 0, errNotReplica
	}
	broken := p.cluster.cfg.Break
	defer r.log.begin("FetchFromLeader", true)()
	if end, _ := r.log.End(); broken.FetchAsksNothing && end >= r.part.leaderEnd.Load() {
		return end, nil
	}
	for {
		request := fetchRequest{replica: p.id, brokerEpoch: p.epoch, part: r.part, leaderEpoch: leaderEpoch}
		request.offset, request.lastEpoch = r.log.End()
		answer, err := p.ask(ctx, r.part, request)
		if err != nil {
			return 0, err
		}
		wasTo := to
		if to < 0 {
			to = answer.end
		}
		answer.batches = upTo(answer.batches, to)
		ok, err := f.use(ctx, r, request, answer)
		if err != nil {
			return answer.end, err
		}
		end, _ := r.log.End()
		if broken.FetchEndsDiverged && (end == to || wasTo < 0 && answer.diverging != nil) {
			return answer.end, nil
		}
		if ok && (end >= to || len(answer.batches) == 0) {
			return answer.end, nil
		}
	}
}

// upTo returns the batches that begin below the offset: what lies above was not asked for, the store brings it. It keeps
// the first batch whatever it begins at: what lies before it may be a compaction gap, which nothing else closes.
func upTo(batches []byte, offset int64) []byte {
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		if scanner.Position() > 0 && scanner.Header().BaseOffset >= offset {
			return batches[:scanner.Position()]
		}
	}
	return batches
}

// use does what an answer asks for, and tells whether it neither diverged nor was out of range. As in Kafka, the answer
// counts only if the log is still where it was when it was asked for.
func (f *ordinaryFetch) use(ctx context.Context, r *role, request fetchRequest, answer fetchAnswer) (ok bool, err error) {
	switch {
	case answer.diverging != nil:
		return false, r.log.do(ctx, func(log *memory.Log) error {
			if end, _ := log.End(); end == request.offset && follows(log, request.leaderEpoch) {
				log.TruncateDiverging(*answer.diverging)
				r.log.truncated("diverging", end)
			}
			return nil
		})
	case answer.outOfRange:
		return false, r.log.do(ctx, func(log *memory.Log) error {
			end, _ := log.End()
			switch {
			case end != request.offset || !follows(log, request.leaderEpoch):
			case end > answer.end: // the leader lost what this log has
				log.TruncateTo(answer.end)
				r.log.truncated("above the leader's end", end)
			default: // the leader's log begins later
				log.TruncateFullyAndStartAt(max(answer.start, end))
				r.log.truncated("below the leader's start", end)
			}
			return nil
		})
	}
	if len(answer.batches) > 0 {
		if err := r.log.appendFetched(ctx, request.leaderEpoch, request.offset, answer.batches); err != nil {
			return false, err
		}
	}
	f.process.learn(r, answer.highWatermark, answer.start)
	return true, nil
}

// follows tells whether the log still follows in the epoch: what an answer of an older one says is not for it.
func follows(log *memory.Log, epoch int32) bool {
	now, leads := log.Epoch()
	return now == epoch && !leads
}

// ask sends a fetch to the leader and waits for the answer.
func (p *process) ask(ctx context.Context, part *Partition, request fetchRequest) (fetchAnswer, error) {
	if p.dead() {
		return fetchAnswer{}, errKilled
	}
	p.enter(asking)
	defer p.leave(asking)
	if p.zombie.Load() {
		return fetchAnswer{}, p.callInVain(ctx, fmt.Sprint("fetch ", part.index))
	}
	leaderID := p.leaderOf(part)
	if leaderID == nobody {
		return fetchAnswer{}, errNotLeader
	}
	if err := p.cluster.network.travel(ctx, link{p.id, leaderID, "fetch", part.index}, 0); err != nil {
		return fetchAnswer{}, err
	}
	var answer fetchAnswer
	refusal := errUnreachable
	if leading := p.cluster.process(leaderID); leading != nil {
		p.cluster.count("ordinary fetch")
		answer, refusal = leading.serve(request)
	}
	if err := p.cluster.network.travel(ctx, link{leaderID, p.id, "fetched", part.index}, 0); err != nil {
		return fetchAnswer{}, err
	}
	return answer, refusal
}

// serve answers an ordinary fetch.
func (p *process) serve(q fetchRequest) (fetchAnswer, error) {
	r, diverging, err := p.check(q.part.Key(), q.replica, q.brokerEpoch, q.leaderEpoch, q.offset, q.lastEpoch)
	if err != nil && !errors.Is(err, memory.ErrOutOfRange) {
		return fetchAnswer{}, err
	}
	answer := fetchAnswer{diverging: diverging, outOfRange: err != nil, start: r.log.Start(), highWatermark: p.highWatermark(r)}
	answer.end, _ = r.log.End()
	if diverging != nil || err != nil {
		return answer, nil
	}
	buf := make([]byte, min(fetchBytes, 4<<10+2<<10*(answer.end-q.offset)))
	n, err := r.log.read(p.ctx, q.offset, buf)
	var short *leader.ShortBufferError
	switch {
	case errors.As(err, &short):
		buf = make([]byte, short.Need)
		n, err = r.log.read(p.ctx, q.offset, buf)
	case errors.Is(err, leader.ErrInsideBatch):
		buf = r.log.log.Bytes(q.offset) // from the beginning of the batch that holds the offset
		n, err = len(buf), nil
	}
	if err != nil {
		return fetchAnswer{}, fmt.Errorf("reading: %w", err)
	}
	answer.batches = buf[:n]
	return answer, nil
}

// check is what a leader checks of every fetch and every report (B3).
func (p *process) check(key segment.PartitionKey, replica int32, brokerEpoch int64, leaderEpoch int32, offset int64, lastEpoch int32) (*role, *memory.EpochEnd, error) {
	p.mu.Lock()
	r := p.roles[key]
	if r == nil || !r.leads() {
		p.mu.Unlock()
		return nil, nil, errNotLeader
	}
	known, isReplica := r.brokers[replica]
	epoch := r.epoch
	p.mu.Unlock()
	switch {
	case leaderEpoch < epoch:
		return nil, nil, errFencedEpoch
	case leaderEpoch > epoch:
		return nil, nil, errUnknownEpoch
	case !isReplica:
		return nil, nil, errNotReplica
	case brokerEpoch < known:
		return nil, nil, errStaleBroker
	}
	if p.cluster.cfg.Break.NoReportChecks {
		return r, nil, nil
	}
	diverging, err := r.log.log.CheckFetch(offset, lastEpoch)
	return r, diverging, err
}
