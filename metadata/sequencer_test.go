package metadata_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// story feeds steps of the form "epoch:sequence" or "epoch:sequence/segment", both of broker 1, or "!" for an event
// that could not be read, "epoch!" where its epoch is known, and returns what a subscription would yield.
func story(s *metadata.Sequencer, steps string) string {
	var out []string
	for step := range strings.FieldsSeq(steps) {
		if unreadable, found := strings.CutSuffix(step, "!"); found {
			epoch := int64(-1)
			_, _ = fmt.Sscan(unreadable, &epoch)
			gap := s.Unreadable(1, epoch, -1, metadata.GapCorrupt)
			out = append(out, string(gap.Reason))
			continue
		}
		var epoch, sequence, number int64
		if _, err := fmt.Sscanf(step, "%d:%d/%d", &epoch, &sequence, &number); err != nil {
			number = sequence
		}
		event := testevent.New(1, epoch, sequence)
		event.Segment.ID = testevent.ID(1, epoch, uint32(number))
		gap, deliver := s.Accept(event)
		if gap != nil {
			out = append(out, fmt.Sprintf("gap%d[%d,%d)", gap.BrokerEpoch, gap.From, gap.To))
		}
		if deliver {
			out = append(out, fmt.Sprintf("%d:%d", epoch, sequence))
		}
	}
	return strings.Join(out, " ")
}

// M3, L6, R12, H4.
func TestSequencer(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"in order", "1:0 1:1 1:2", "1:0 1:1 1:2"},
		{"R12: the first event seen of a broker sets the base", "1:57 1:58", "1:57 1:58"},
		{"M3: a jump is a gap, and the event that shows it follows", "1:0 1:3 1:4", "1:0 gap1[1,3) 1:3 1:4"},
		{"H4: a newer epoch begins at 0", "7:57 8:0 8:1", "7:57 8:0 8:1"},
		{"H4: a newer epoch that does not begin at 0 is a gap", "7:57 8:3 8:4", "7:57 gap8[0,3) 8:3 8:4"},
		{"epochs may skip", "7:57 900:0", "7:57 900:0"},
		{"L5: a publication repeated", "1:0 1:1 1:2 1:1 1:2 1:3", "1:0 1:1 1:2 1:3"},
		{"R12: duplicates are told by the segment, not by the sequence", "1:0 1:1 1:1/9", "1:0 1:1 1:1"},
		{"a segment under a new sequence is no news", "1:0 1:1 1:2/1 1:3", "1:0 1:1 1:3"},
		{"a late event fills its gap", "1:0 1:2 1:1 1:2 1:3", "1:0 gap1[1,2) 1:2 1:1 1:3"},
		{"an event from before the base", "1:57 1:55 1:58", "1:57 1:55 1:58"},
		{"L6: an older epoch is delivered after a newer one", "8:0 7:4 8:1", "8:0 7:4 8:1"},
		{"L6: and counted in its own epoch", "7:3 8:0 7:4 8:1 7:6 8:2", "7:3 8:0 7:4 8:1 gap7[5,6) 7:6 8:2"},
		{"L6: and sets no base for the newer one", "8:5 7:0 8:7", "8:5 7:0 gap8[6,7) 8:7"},
		{"duplicates across epochs", "7:3 8:0 7:3 8:0", "7:3 8:0"},
		{"M4: an unreadable event is a gap, and only one", "1:0 ! 1:2", "1:0 corrupt 1:2"},
		{"M4: two of them", "1:0 ! ! 1:3", "1:0 corrupt corrupt 1:3"},
		{"M4: and more are missing", "1:0 ! 1:4", "1:0 corrupt gap1[1,4) 1:4"},
		{"M4: it was a copy", "1:0 1:1 ! 1:2 1:4", "1:0 1:1 corrupt 1:2 gap1[3,4) 1:4"},
		{"M4: the first of a newer epoch", "1:0 ! 2:1 2:2", "1:0 corrupt 2:1 2:2"},
		{"M3: what is unreadable of one epoch hides nothing of the next", "1:0 1! 2:1 2:2", "1:0 corrupt gap2[0,1) 2:1 2:2"},
		{"M4: nor is it told again when its own epoch goes on", "1:0 1! 2:0 1:2", "1:0 corrupt 2:0 1:2"},
		{"M3: an epoch between two that were seen begins at 0 too", "1:4 3:0 2:1", "1:4 3:0 gap2[0,1) 2:1"},
		{"M4: before anything else", "! 1:57 1:59", "corrupt 1:57 gap1[58,59) 1:59"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, story(new(metadata.Sequencer), tt.steps))
		})
	}
}

func TestSequencerKeepsBrokersApart(t *testing.T) {
	var s metadata.Sequencer
	for _, event := range []*metadata.Event{testevent.New(1, 1, 10), testevent.New(2, 1, 500), testevent.New(1, 1, 11), testevent.New(2, 1, 501)} {
		gap, deliver := s.Accept(event)
		assert.Nil(t, gap)
		assert.True(t, deliver)
	}
	gap := s.Unreadable(2, 1, 502, metadata.GapUnknownVersion)
	assert.Equal(t, metadata.Gap{BrokerID: 2, BrokerEpoch: 1, From: 502, To: 503, Reason: metadata.GapUnknownVersion}, gap)
	missing, _ := s.Accept(testevent.New(1, 1, 13))
	assert.Equal(t, &metadata.Gap{BrokerID: 1, BrokerEpoch: 1, From: 12, To: 13, Reason: metadata.GapMissing}, missing,
		"the unreadable event of one broker hides a gap of another")
}

// The range that a repeated publication can have is far below what is remembered.
func TestSequencerRemembersLongPublications(t *testing.T) {
	var s metadata.Sequencer
	delivered := 0
	for range 3 {
		for sequence := range int64(256) {
			if _, deliver := s.Accept(testevent.New(1, 1, sequence)); deliver {
				delivered++
			}
		}
	}
	assert.Equal(t, 256, delivered)

	for sequence := int64(256); sequence < 5_000; sequence++ {
		gap, deliver := s.Accept(testevent.New(1, 1, sequence))
		assert.Nil(t, gap)
		assert.True(t, deliver)
	}
	event := testevent.New(1, 1, 5_000)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		event.Sequence++
		event.Segment.ID.UUID[15]++
		s.Accept(event)
	}))
}

func TestSequencerForgetsOldEpochs(t *testing.T) {
	var s metadata.Sequencer
	for epoch := range int64(1_000) {
		gap, deliver := s.Accept(testevent.New(1, epoch, 0))
		require.Nil(t, gap)
		require.True(t, deliver)
	}
	assert.Equal(t, "3:5 gap999[1,4) 999:4", story(&s, "3:5 999:4"))
}
