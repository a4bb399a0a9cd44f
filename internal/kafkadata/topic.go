package kafkadata

import (
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/walhop/walhop/internal/batch"
)

//go:embed topics/*/*.log topics/*/dump.txt topics/*/leader-epoch-checkpoint topics/*/partition.metadata
var files embed.FS

// Topic is one topic of one partition.
type Topic struct {
	// Name and TopicID are those of the topic; the partition is 0.
	Name    string
	TopicID uuid.UUID
	// Segments are the log's segments in the order of their offsets.
	Segments []Segment
	// Epochs are the leader epochs of the log in their order, from its epoch checkpoint.
	Epochs []EpochStart
	// Batches are what Kafka's dump says of every batch, in the order of the log.
	Batches []DumpBatch
}

// Segment is one log segment.
type Segment struct {
	// BaseOffset is the offset in the file's name. The first batch may begin later, after compaction.
	BaseOffset int64
	// Log is the whole .log file, a fresh copy.
	Log []byte
}

// EpochStart says that a leader epoch began at an offset.
type EpochStart struct {
	Epoch int32
	Start int64
}

// Run is the part of a log that was written under one leader epoch.
type Run struct {
	EpochStart
	// End is the offset after the last batch.
	End int64
	// Log are the batches, back to back across segments.
	Log []byte
}

// Runs splits the log by leader epoch: what a leader would lead and upload, one Lead for each.
func (t *Topic) Runs() []Run {
	runs := make([]Run, len(t.Epochs))
	for i := range runs {
		runs[i].EpochStart = t.Epochs[i]
		runs[i].End = t.Epochs[i].Start
	}
	for _, segment := range t.Segments {
		for s := batch.NewScanner(segment.Log); s.Next(); {
			for i := range runs {
				if runs[i].Epoch == s.Header().LeaderEpoch {
					runs[i].Log = append(runs[i].Log, s.Bytes()...)
					runs[i].End = s.Header().NextOffset()
				}
			}
		}
	}
	return runs
}

// Log returns the batches of all segments, back to back.
func (t *Topic) Log() []byte {
	var log []byte
	for _, segment := range t.Segments {
		log = append(log, segment.Log...)
	}
	return log
}

// Topics returns all topics in the order of their names. It panics if a file in the repository is damaged.
func Topics() []Topic {
	folders, err := files.ReadDir("topics")
	check("topics", err)
	topics := make([]Topic, 0, len(folders))
	for _, folder := range folders {
		dir := path.Join("topics", folder.Name())
		topic := Topic{
			Name:    folder.Name(),
			TopicID: topicID(dir),
			Epochs:  epochs(dir),
			Batches: dumped(dir),
		}
		logs, err := fs.Glob(files, dir+"/*.log")
		check(dir, err)
		for _, name := range logs { // the names are offsets with leading zeros, and sorted
			base, err := strconv.ParseInt(strings.TrimSuffix(path.Base(name), ".log"), 10, 64)
			check(name, err)
			topic.Segments = append(topic.Segments, Segment{BaseOffset: base, Log: []byte(read(name))})
		}
		topics = append(topics, topic)
	}
	return topics
}

// topicID reads partition.metadata: a line "topic_id: " with 16 bytes in base64.
func topicID(dir string) uuid.UUID {
	name := path.Join(dir, "partition.metadata")
	for line := range strings.Lines(read(name)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "topic_id: "); ok {
			b, err := base64.RawURLEncoding.DecodeString(text)
			check(name, err)
			id, err := uuid.FromBytes(b)
			check(name, err)
			return id
		}
	}
	panic("kafkadata: no topic_id in " + name)
}

// epochs reads leader-epoch-checkpoint: a version, a count, and a line with epoch and start offset for each.
func epochs(dir string) []EpochStart {
	name := path.Join(dir, "leader-epoch-checkpoint")
	lines := strings.Split(strings.TrimSpace(read(name)), "\n")
	var found []EpochStart
	for _, line := range lines[2:] {
		var e EpochStart
		_, err := fmt.Sscan(line, &e.Epoch, &e.Start)
		check(name, err)
		found = append(found, e)
	}
	return found
}

func read(name string) string {
	b, err := files.ReadFile(name)
	check(name, err)
	return string(b)
}

func check(name string, err error) {
	if err != nil {
		panic(fmt.Sprintf("kafkadata: %s: %v", name, err))
	}
}
