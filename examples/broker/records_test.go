package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
)

type record struct {
	Offset int64
	Value  []byte
}

// records reads the records of uncompressed batches.
func records(t *testing.T, log []byte) (all []record) {
	t.Helper()
	s := batch.NewScanner(log)
	for s.Next() {
		h := s.Header()
		require.NoError(t, batch.VerifyCRC(s.Bytes()))
		require.Zero(t, h.Attributes&batch.CodecMask)
		b := s.Bytes()[batch.HeaderLength:]
		for range h.Records {
			size, n := binary.Varint(b)
			fields := b[n : n+int(size)]
			b = b[n+int(size):]
			fields = fields[1:] // attributes
			_, n = binary.Varint(fields)
			fields = fields[n:]
			delta, n := binary.Varint(fields)
			fields = fields[n:]
			key, n := binary.Varint(fields)
			fields = fields[n+max(0, int(key)):]
			value, n := binary.Varint(fields)
			all = append(all, record{h.BaseOffset + delta, fields[n : n+max(0, int(value))]})
		}
	}
	require.NoError(t, s.Err())
	return all
}
