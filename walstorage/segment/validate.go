package segment

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/walhop/walhop/walstorage"
)

const (
	// maxClusterLength is what an object key takes, maxTopicLength is Kafka's own limit.
	maxClusterLength, maxTopicLength = 255, 249
	// maxSpan bounds LastOffset - BaseOffset of a slice (S4).
	maxSpan = 1<<31 - 1
	// maxBodyLength keeps sums of lengths from overflowing; no store takes an object of this size.
	maxBodyLength = 1 << 50
)

// Validate returns nil if m describes a segment that can exist, and otherwise an error of kind
// [walstorage.ErrInvalidArgument] that names the wrong field. Every decoded Metadata is valid.
func (m *Metadata) Validate() error {
	if problem := m.problem(); problem != "" {
		return walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("segment metadata: "+problem))
	}
	return nil
}

// problem names the first wrong field, empty if there is none. It allocates only for the answer.
func (m *Metadata) problem() string {
	if problem := textProblem(m.Cluster, maxClusterLength); problem != "" {
		return "Cluster " + problem
	}
	if len(m.Store) > maxClusterLength || !utf8.ValidString(m.Store) {
		return "Store is longer than 255 bytes or no UTF-8"
	}
	if err := m.ID.Validate(); err != nil {
		return err.Error()
	}
	if !m.Created.Equal(m.ID.Created()) {
		return "Created is not the time of the segment id"
	}
	if len(m.Topics) == 0 {
		return "Topics is empty"
	}
	var body int64
	for i := range m.Topics {
		topic := &m.Topics[i]
		if problem := topicProblem(topic.ID, topic.Name); problem != "" {
			return fmt.Sprintf("Topics[%d].%s", i, problem)
		}
		if i > 0 && compareIDs(&m.Topics[i-1].ID, &topic.ID) >= 0 {
			return fmt.Sprintf("Topics[%d].ID is not greater than the one before", i)
		}
		if len(topic.Slices) == 0 {
			return fmt.Sprintf("Topics[%d].Slices is empty", i)
		}
		for j := range topic.Slices {
			slice := &topic.Slices[j]
			problem := slice.problem()
			if problem == "" && j > 0 && topic.Slices[j-1].Partition >= slice.Partition {
				problem = "Partition is not greater than the one before" // one slice per partition (S1)
			}
			if problem != "" {
				return fmt.Sprintf("Topics[%d].Slices[%d].%s", i, j, problem)
			}
			if body += slice.Length; body > maxBodyLength {
				return fmt.Sprintf("Topics[%d].Slices[%d].Length makes the body larger than any store takes", i, j)
			}
		}
	}
	return ""
}

// problem names the first wrong field of a slice by itself.
func (s *Slice) problem() string {
	switch {
	case s.Partition < 0:
		return "Partition is negative"
	case s.LeaderEpoch < -1:
		return "LeaderEpoch is less than -1"
	case s.EpochStart < 0:
		return "EpochStart is negative"
	case s.BaseOffset < s.EpochStart:
		return "BaseOffset is less than EpochStart"
	case s.LastOffset < s.BaseOffset:
		return "LastOffset is less than BaseOffset"
	case s.LastOffset-s.BaseOffset > maxSpan:
		return "LastOffset is 2^31 or more above BaseOffset" // S4
	case s.Length <= 0:
		return "Length is not positive"
	case s.Length > maxBodyLength:
		return "Length is larger than any store takes"
	case s.MaxTimestamp < -1:
		return "MaxTimestamp is less than -1"
	}
	return ""
}

func topicProblem(id uuid.UUID, name string) string {
	if id == uuid.Nil {
		return "ID is zero"
	}
	if problem := textProblem(name, maxTopicLength); problem != "" {
		return "Name " + problem
	}
	return ""
}

func textProblem(text string, limit int) string {
	switch {
	case text == "":
		return "is empty"
	case len(text) > limit:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text):
		return "is no UTF-8"
	}
	return ""
}
