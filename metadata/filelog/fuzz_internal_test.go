package filelog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/metadata"
)

// seedFile is the file that the seeds are about.
var seedFile = fileName{broker: 3, epoch: 5, number: 7}

// framesAt returns a header and frames around the events, as they stand at the beginning of a file.
func framesAt(n fileName, events ...string) []byte {
	b := make([]byte, headerLength)
	n.putHeader(b, time.UnixMilli(1234567890123))
	for _, event := range events {
		frame := append(make([]byte, frameHeaderLength), event...)
		n.putFrame(frame, int64(len(b)), time.UnixMilli(1234567890456))
		b = append(b, frame...)
	}
	return b
}

// fileSeeds are names in a broker's directory, and the bytes of a file; named and frames tell what is found in them.
func fileSeeds() []struct {
	name, base string
	b          []byte
	named      bool
	header     error
	frames     int
} {
	whole := framesAt(seedFile, "first event", "second")
	set := func(at int, value ...byte) []byte {
		b := bytes.Clone(whole)
		copy(b[at:], value)
		return b
	}
	future := framesAt(seedFile, "x")
	future[9] = formatVersion + 1
	binary.BigEndian.PutUint32(future[36:], crc32.Checksum(future[:36], castagnoli))
	base := seedFile.base()
	first := headerLength
	return []struct {
		name, base string
		b          []byte
		named      bool
		header     error
		frames     int
	}{
		{"whole", base, whole, true, nil, 2},
		{"empty", "", nil, false, errHeader, 0},
		{"name-of-a-temporary", base + ".tmp", whole, false, nil, 2},
		{"name-short", "5-7.events", whole, false, nil, 2},
		{"name-signed", "+000000000000000005-0000000007.events", whole, false, nil, 2},
		{"name-epoch-beyond-64-bits", "9999999999999999999-0000000007.events", whole, false, nil, 2},
		{"name-number-beyond-32-bits", "0000000000000000005-9999999999.events", whole, false, nil, 2},
		{"header-magic", base, set(0, 0), true, errHeader, 2},
		{"header-version-flipped", base, set(9, 9), true, errHeader, 2},
		{"header-version-2", base, future, true, errFormatVersion, 1},
		{"header-of-another-file", base, append(framesAt(fileName{broker: 3, epoch: 5, number: 8})[:headerLength:headerLength], whole[headerLength:]...), true, errHeader, 2},
		{"header-cut", base, whole[:headerLength-1], true, errHeader, 0},
		{"header-alone", base, whole[:headerLength], true, nil, 0},
		{"frames-of-another-file", base, append(bytes.Clone(whole[:headerLength]), framesAt(fileName{broker: 4, epoch: 5, number: 7}, "a", "b")[headerLength:]...), true, nil, 0},
		{"frames-moved", base, append(bytes.Clone(whole[:headerLength]), whole[headerLength-1:]...), true, nil, 0},
		{"first-marker", base, set(first, 0), true, nil, 1},
		{"first-length", base, set(first+7, 1), true, nil, 1},
		{"first-length-largest", base, set(first+4, 0xff, 0xff, 0xff, 0xff), true, nil, 1},
		{"first-stamp", base, set(first+8, 1), true, nil, 1},
		{"first-checksum-of-header", base, set(first+20, 1, 2, 3, 4), true, nil, 1},
		{"first-event", base, set(first+frameHeaderLength, 'F'), true, nil, 2}, // its header is good
		{"event-empty", base, framesAt(seedFile, ""), true, nil, 0},
		{"markers-alone", base, append(bytes.Clone(whole[:headerLength]), bytes.Repeat([]byte(marker), 20)...), true, nil, 0},
	}
}

// framesIn returns where the frames of a file begin, as a reader looks for them after damage.
func framesIn(n fileName, b []byte) (all []int) {
	for at := headerLength; at <= len(b); {
		i := n.findFrame(b[at:], int64(at))
		if i < 0 {
			break
		}
		all = append(all, at+i)
		at += i + 1
	}
	return all
}

func TestFileCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range fileSeeds() {
		_, named := parseFileName(seedFile.broker, seed.base)
		assert.Equal(t, seed.named, named, seed.name)
		_, err := seedFile.parseHeader(seed.b)
		assert.Equal(t, seed.header, err, seed.name)
		assert.Len(t, framesIn(seedFile, seed.b), seed.frames, seed.name)
		assert.Zero(t, testing.AllocsPerRun(10, func() { seedFile.findFrame(seed.b, 0) }), "%s: S5", seed.name)
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.base, seed.b}})
	}
	corpus.Check(t, "FuzzFile", files...)
}

// S5: any bytes as the name of a directory, of a file, and as a file. What is taken for good is what a writer makes.
func FuzzFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, base string, b []byte) {
		if broker, ok := parseBrokerDir(base); ok && (broker < 0 || brokerDir(broker) != base) {
			t.Fatalf("%q is the directory of broker %d", base, broker)
		}
		name, named := parseFileName(seedFile.broker, base)
		if named && (name.base() != base || name.epoch < 0 || name.broker != seedFile.broker) {
			t.Fatalf("%q is %+v", base, name)
		}
		if !named {
			name = seedFile
		}
		created, err := name.parseHeader(b)
		switch err {
		case nil:
			var again [headerLength]byte
			name.putHeader(again[:], created)
			if !bytes.Equal(again[:], b[:headerLength]) {
				t.Fatalf("a header %x is written as %x", b[:headerLength], again)
			}
		case errHeader, errFormatVersion:
		default:
			t.Fatalf("an error of no kind: %v", err)
		}
		for _, at := range framesIn(name, b) {
			head, ok := name.parseFrame(b[at:], int64(at))
			if !ok || head.length <= 0 || head.length > metadata.MaxEventBytes {
				t.Fatalf("a frame at %d of %d bytes, %v", at, head.length, ok)
			}
			if int64(len(b)-at) < head.size() {
				continue
			}
			event := b[at+frameHeaderLength : int64(at)+head.size()]
			if !head.intact(event) {
				continue
			}
			again := append(make([]byte, frameHeaderLength), event...)
			name.putFrame(again, int64(at), head.stamp)
			if !bytes.Equal(again, b[at:int64(at)+head.size()]) {
				t.Fatalf("a frame %x is written as %x", b[at:int64(at)+head.size()], again)
			}
		}
		// What a writer makes of the bytes is found again, at its place and behind anything.
		if len(b) > 0 {
			whole := framesAt(name, string(b))
			head, ok := name.parseFrame(whole[headerLength:], headerLength)
			require.True(t, ok)
			require.True(t, head.intact(b))
			require.Equal(t, headerLength, name.findFrame(whole, 0))
		}
	})
}
