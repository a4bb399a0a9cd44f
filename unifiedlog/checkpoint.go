package unifiedlog

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"github.com/google/uuid"
)

// encodeEpochs returns the text of leader-epoch-checkpoint: version 0, the number of entries, and a line with epoch and
// start offset for each.
func encodeEpochs(c Epochs) []byte {
	b := fmt.Appendf(nil, "0\n%d\n", len(c))
	for _, e := range c {
		b = fmt.Appendf(b, "%d %d\n", e.Epoch, e.Start)
	}
	return b
}

// decodeEpochs reads what encodeEpochs writes, and nothing else: the file has no checksum, so whatever no writer makes
// counts as damage. The error is a [*DamageError].
func decodeEpochs(b []byte) (Epochs, error) {
	damaged := func(rest []byte, reason string) (Epochs, error) {
		return nil, &DamageError{File: epochsName, Position: int64(len(b) - len(rest)), Reason: reason}
	}
	version, rest, ok := cutNumber(b, '\n')
	if !ok || version != 0 {
		return damaged(b, "the version is not 0")
	}
	count, after, ok := cutNumber(rest, '\n')
	if !ok || count < 0 {
		return damaged(rest, "the number of entries is no number")
	}
	var c Epochs
	for rest = after; len(rest) > 0; {
		epoch, after, ok := cutNumber(rest, ' ')
		if !ok || epoch < 0 || epoch > math.MaxInt32 {
			return damaged(rest, "the epoch is none")
		}
		start, after, ok := cutNumber(after, '\n')
		if !ok || start < 0 {
			return damaged(rest, "the start offset is none")
		}
		entry := EpochStart{Epoch: int32(epoch), Start: start}
		if n := len(c); n > 0 && (c[n-1].Epoch >= entry.Epoch || c[n-1].Start >= entry.Start) {
			return damaged(rest, "the entry does not follow the one before")
		}
		c, rest = append(c, entry), after
	}
	if int64(len(c)) != count {
		return damaged(rest, "the number of entries is wrong")
	}
	return c, nil
}

// cutNumber reads a decimal number that ends with the byte end, in the one way in which it is written.
func cutNumber(b []byte, end byte) (n int64, rest []byte, ok bool) {
	text, rest, ok := bytes.Cut(b, []byte{end})
	if !ok || len(text) > 20 {
		return 0, b, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != string(text) {
		return 0, b, false
	}
	return n, rest, true
}

// The text of partition.metadata: the version, and the topic id as Kafka prints it.
const (
	metadataHead = "version: 0\ntopic_id: "
	// metadataLimit is more than any such file has.
	metadataLimit = 1 << 10
)

// encodeMetadata returns the text of partition.metadata.
func encodeMetadata(id uuid.UUID) []byte {
	return []byte(metadataHead + base64.RawURLEncoding.EncodeToString(id[:]))
}

// decodeMetadata reads what encodeMetadata writes, with or without an end of line. The error is a [*DamageError].
func decodeMetadata(b []byte) (uuid.UUID, error) {
	text, ok := bytes.CutPrefix(bytes.TrimSuffix(b, []byte("\n")), []byte(metadataHead))
	if !ok {
		return uuid.Nil, &DamageError{File: metadataName, Reason: "it is no version 0 with a topic id"}
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	if err == nil && base64.RawURLEncoding.EncodeToString(raw) != string(text) {
		err = base64.CorruptInputError(0) // the decoder skips ends of lines
	}
	if err != nil || len(raw) != len(uuid.UUID{}) {
		return uuid.Nil, &DamageError{File: metadataName, Position: int64(len(metadataHead)), Reason: "the topic id is none"}
	}
	return uuid.UUID(raw), nil
}
