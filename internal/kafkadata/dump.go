package kafkadata

import (
	"path"
	"strconv"
	"strings"
)

// DumpBatch is what DumpLogSegments says of a batch.
type DumpBatch struct {
	// Segment is the base offset in the name of the file, Position where the batch begins in it, Size its size, in bytes.
	Segment  int64
	Position int
	Size     int

	BaseOffset, LastOffset     int64
	Count                      int32
	BaseSequence, LastSequence int32
	ProducerID                 int64
	ProducerEpoch              int16
	LeaderEpoch                int32
	Transactional, Control     bool
	// DeleteHorizon is a time in Unix milliseconds, valid if HasDeleteHorizon is set.
	DeleteHorizon    int64
	HasDeleteHorizon bool
	// LogAppendTime says that MaxTimestamp, in Unix milliseconds, is the broker's.
	LogAppendTime bool
	MaxTimestamp  int64
	Magic         int8
	// Codec is "none", "gzip", "snappy", "lz4" or "zstd".
	Codec string
	CRC   uint32
}

// dumped reads dump.txt. A line "Dumping ....log" begins a segment, a line "baseOffset: ..." is a batch: pairs of name
// and value, with a space between all of them.
func dumped(dir string) []DumpBatch {
	name := path.Join(dir, "dump.txt")
	var batches []DumpBatch
	segment := int64(-1)
	for line := range strings.Lines(read(name)) {
		line = strings.TrimSpace(line)
		if file, ok := strings.CutPrefix(line, "Dumping "); ok {
			if base, isLog := strings.CutSuffix(file, ".log"); isLog {
				segment = number(name, base)
			}
			continue
		}
		if !strings.HasPrefix(line, "baseOffset: ") {
			continue
		}
		batch := DumpBatch{Segment: segment}
		words := strings.Fields(line)
		for i := 0; i+1 < len(words); i += 2 {
			batch.set(name, strings.TrimSuffix(words[i], ":"), words[i+1])
		}
		batches = append(batches, batch)
	}
	return batches
}

func (b *DumpBatch) set(file, field, value string) {
	switch field {
	case "baseOffset":
		b.BaseOffset = number(file, value)
	case "lastOffset":
		b.LastOffset = number(file, value)
	case "count":
		b.Count = int32(number(file, value))
	case "baseSequence":
		b.BaseSequence = int32(number(file, value))
	case "lastSequence":
		b.LastSequence = int32(number(file, value))
	case "producerId":
		b.ProducerID = number(file, value)
	case "producerEpoch":
		b.ProducerEpoch = int16(number(file, value))
	case "partitionLeaderEpoch":
		b.LeaderEpoch = int32(number(file, value))
	case "isTransactional":
		b.Transactional = value == "true"
	case "isControl":
		b.Control = value == "true"
	case "deleteHorizonMs":
		if inner, ok := strings.CutPrefix(value, "OptionalLong["); ok {
			b.HasDeleteHorizon, b.DeleteHorizon = true, number(file, strings.TrimSuffix(inner, "]"))
		}
	case "position":
		b.Position = int(number(file, value))
	case "CreateTime", "LogAppendTime":
		b.LogAppendTime, b.MaxTimestamp = field == "LogAppendTime", number(file, value)
	case "size":
		b.Size = int(number(file, value))
	case "magic":
		b.Magic = int8(number(file, value))
	case "compresscodec":
		b.Codec = value
	case "crc":
		b.CRC = uint32(number(file, value))
	case "isvalid":
		if value != "true" {
			panic("kafkadata: " + file + ": Kafka found an invalid batch")
		}
	default:
		panic("kafkadata: " + file + ": unknown field " + field)
	}
}

func number(file, value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	check(file, err)
	return n
}
