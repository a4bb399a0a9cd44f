package replica_test

import "github.com/walhop/walhop/internal/batch"

// upTo returns the batches that end below the offset to.
func upTo(b []byte, to int64) []byte {
	scanner := batch.NewScanner(b)
	for scanner.Next() {
		if scanner.Header().NextOffset() > to {
			return b[:scanner.Position()]
		}
	}
	return b
}
