package memory_test

import (
	"testing"

	"github.com/walhop/walhop/unifiedlog/internal/contract"
)

func TestAppendRefusesBadBytes(t *testing.T) { contract.AppendRefusesBadBytes(t, kind) }

func TestAppendAsFollowerFence(t *testing.T) { contract.AppendAsFollowerFence(t, kind) }

func TestAppendOrder(t *testing.T) { contract.AppendOrder(t, kind) }

// KAFKA-6003: a replica's append checks no producer's sequence numbers.
func TestAppendAsFollowerTakesAnySequence(t *testing.T) {
	contract.AppendAsFollowerTakesAnySequence(t, kind)
}

func TestAppendWithoutOffsetsLeft(t *testing.T) { contract.AppendWithoutOffsetsLeft(t, kind) }

// Jepsen on Bufstream 0.1.0: whatever stops an append, no offset of 0 comes back that could be acknowledged.
func TestNoOffsetComesWithAnError(t *testing.T) { contract.NoOffsetComesWithAnError(t, kind) }
