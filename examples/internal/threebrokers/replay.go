package threebrokers

import (
	"context"
	"embed"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/google/uuid"
)

// realSegments are log segments of an Apache Kafka 4.3.1 broker, a folder a topic: plain and in every codec, idempotent
// and transactional with markers, compacted with gaps, with four leader epochs, and more. They are replayed as they are.
//
//go:embed segments
var realSegments embed.FS

// replay appends the real segments to a partition each, one leader epoch after the other, and waits until every follower
// has them. An interrupt ends it between two of them.
func (c *cluster) replay(ctx context.Context, out io.Writer) error {
	topics, err := realSegments.ReadDir("segments")
	if err != nil {
		return err
	}
	begun := time.Now()
	batches, bytes := 0, 0
	for _, topic := range topics {
		log, err := readLog(path.Join("segments", topic.Name()))
		if err != nil {
			return err
		}
		r := c.create(topic.Name(), uuid.New(), 0)
		for len(log) > 0 && ctx.Err() == nil {
			epoch := leaderEpoch(log)
			if err := c.elect(r, epoch); err != nil {
				return fmt.Errorf("%s epoch %d: %w", r, epoch, err)
			}
			run := sameEpoch(log)
			if err := r.leader().log.AppendRaw(c.ctx, run); err != nil {
				return fmt.Errorf("%s: %w", r, err)
			}
			if err := c.await(patience, r.caughtUp); err != nil {
				return fmt.Errorf("%s epoch %d: %w", r, epoch, err)
			}
			n, _ := count(run)
			batches, bytes, log = batches+n, bytes+len(run), log[len(run):]
		}
	}
	fmt.Fprintf(out, "replayed %d batches (%d bytes) of %d real Kafka logs in %s\n", batches, bytes, len(topics), time.Since(begun).Round(time.Millisecond))
	return nil
}

// readLog returns the segments of a folder, which sort by their base offsets, as one log.
func readLog(dir string) (log []byte, err error) {
	files, err := realSegments.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := realSegments.ReadFile(path.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		log = append(log, data...)
	}
	return log, nil
}

// sameEpoch returns the batches at the beginning that share a leader epoch.
func sameEpoch(log []byte) []byte {
	n := 0
	for n < len(log) && leaderEpoch(log[n:]) == leaderEpoch(log) {
		n += batchLength(log[n:])
	}
	return log[:n]
}
