package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// L1, L11: however long nothing can be read, a partition's marks take no more memory than for twice MaxBacklogAge. The
// oldest time is kept, so the partition counts as old as it is, and one skip serves all of them.
func TestL11MarksAreBounded(t *testing.T) {
	const most = 3 * time.Second
	l := &Leadership{notified: none}
	for i := range 30 * 60 * 10 { // half an hour, ten Notifies a second
		l.addMark(int64(i+1), time.Duration(i)*100*time.Millisecond, most/marksPerAge)
		if len(l.marks) == maxMarks {
			assert.Greater(t, time.Duration(i)*100*time.Millisecond-l.oldest(), most+most/4)
		}
	}
	require.Equal(t, maxMarks, len(l.marks))
	assert.Zero(t, l.oldest())
	l.moveTo(l.end)
	assert.Empty(t, l.marks)
	assert.Equal(t, none, l.oldest())
}
