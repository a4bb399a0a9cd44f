package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a broker keeps for its logs across restarts, in Kafka's files in the directory above theirs.
const (
	highWatermarkFile = "replication-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	cleanFile         = ".kafka_cleanshutdown"
)

// checkpointEvery is how often they are written while the broker runs.
const checkpointEvery = 5 * time.Second

// kept is what an earlier run has left, by partition directory.
type kept struct {
	clean                  bool // all logs were closed in good order
	highWatermarks, starts map[string]int64
}

// readKept reads what an earlier run has left, and takes the mark of a clean shutdown away: from now on it would be untrue.
func readKept(dir string) (k kept, err error) {
	if k.highWatermarks, err = readCheckpoint(filepath.Join(dir, highWatermarkFile)); err != nil {
		return k, err
	}
	if k.starts, err = readCheckpoint(filepath.Join(dir, logStartFile)); err != nil {
		return k, err
	}
	err = os.Remove(filepath.Join(dir, cleanFile))
	if k.clean = err == nil; k.clean {
		return k, syncDir(dir)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return k, err
}

// readCheckpoint reads a file of offsets: a version, a number of lines, and lines of topic, partition and offset. A missing
// one is empty, and so is one that does not read: all that it costs is time.
func readCheckpoint(path string) (map[string]int64, error) {
	offsets := map[string]int64{}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return offsets, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue
		}
		if offset, err := strconv.ParseInt(fields[2], 10, 64); err == nil && offset >= 0 {
			offsets[fields[0]+"-"+fields[1]] = offset
		}
	}
	return offsets, nil
}

// keep writes the checkpoints. Of a log that this run has not opened it writes what the run before left.
func (b *broker) keep() error {
	return b.ifAlive(func() error {
		b.mu.Lock()
		for _, p := range b.partitions {
			name := directory(p.TopicIDPartition)
			b.kept.highWatermarks[name], b.kept.starts[name] = p.log.HighWatermark(), p.log.Start()
		}
		highWatermarks, starts := encodeCheckpoint(b.kept.highWatermarks), encodeCheckpoint(b.kept.starts)
		b.mu.Unlock()
		return errors.Join(
			replaceFile(filepath.Join(b.dir, highWatermarkFile), highWatermarks),
			replaceFile(filepath.Join(b.dir, logStartFile), starts))
	})
}

func encodeCheckpoint(offsets map[string]int64) []byte {
	text := fmt.Appendf(nil, "0\n%d\n", len(offsets))
	for _, name := range slices.Sorted(maps.Keys(offsets)) {
		dash := strings.LastIndexByte(name, '-')
		text = fmt.Appendf(text, "%s %s %d\n", name[:dash], name[dash+1:], offsets[name])
	}
	return text
}

// forget drops what is kept of a partition that is no more.
func (b *broker) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.kept.highWatermarks, name)
	delete(b.kept.starts, name)
}

// housekeeping writes the checkpoints now and then, and has the logs forget what they need no more.
func (b *broker) housekeeping() {
	ticker := time.NewTicker(checkpointEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
		}
		err := b.keep()
		for _, p := range b.all() {
			p.log.ExpireProducers()
			_, failed := p.log.Retain()
			err = errors.Join(err, failed)
		}
		if err != nil && !failing {
			b.logger.Warn("the checkpoints cannot be written, or the logs not cleaned", "err", err)
		}
		failing = err != nil
	}
}

// closeLogs closes the logs, and if that went well, and the broker was not killed, says so to the next run: unless there is
// a log that this run has not opened, and that the run before has not closed.
func (b *broker) closeLogs() error {
	err := b.keep()
	opened := map[string]bool{}
	for _, p := range b.all() {
		err = errors.Join(err, p.log.Close())
		opened[directory(p.TopicIDPartition)] = true
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() && !opened[entry.Name()] && !b.kept.clean {
			return nil
		}
	}
	return replaceFile(filepath.Join(b.dir, cleanFile), fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, b.epoch))
}
