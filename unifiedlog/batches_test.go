package unifiedlog_test

import (
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/walhop/walhop/internal/batch"
)

var topicID = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")

// at returns a batch of which the first record has the timestamp.
func at(raw []byte, time int64) []byte {
	raw = slices.Clone(raw)
	length := int64(binary.BigEndian.Uint64(raw[35:])) - int64(binary.BigEndian.Uint64(raw[27:]))
	binary.BigEndian.PutUint64(raw[27:], uint64(time))
	binary.BigEndian.PutUint64(raw[35:], uint64(time+length))
	batch.SetCRC(raw)
	return raw
}
