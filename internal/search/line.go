package search

import "strings"

const (
	mostBrokers    = 3
	mostPartitions = 2
	mostEpochs     = 4 // epochs 1 to mostEpochs
	mostOffsets    = 6
)

// line is a history of a partition: for each offset the epoch of its record, negative where the record is not the first of
// its batch. That an epoch and an offset name a record holds since each start of a leadership has an epoch of its own (B6).
type line struct {
	n  int8
	at [mostOffsets]int8
}

func (l *line) add(p placed) {
	for o := p.base; o <= p.last; o++ {
		l.at[o] = -p.epoch
	}
	l.at[p.base] = p.epoch
	l.n = p.last + 1
}

func (l *line) cut(n int8) {
	for o := n; o < l.n; o++ {
		l.at[o] = 0
	}
	l.n = min(l.n, n)
}

// last returns the epoch of the last record, 0 if there is none.
func (l *line) last() int8 {
	if l.n == 0 {
		return 0
	}
	return max(l.at[l.n-1], -l.at[l.n-1])
}

// common returns the offset up to which two lines are the same, whatever lies below from.
func (l *line) common(m *line, from int8) int8 {
	n := int8(0)
	for n < l.n && n < m.n && (n < from || l.at[n] == m.at[n]) {
		n++
	}
	return n
}

// boundary tells whether a batch begins at the offset, or the line ends there.
func (l *line) boundary(o int8) bool { return o == l.n || o < l.n && l.at[o] > 0 }

// batch returns the batch that begins at the offset.
func (l *line) batch(o int8) placed {
	p := placed{l.at[o], o, o}
	for p.last+1 < l.n && l.at[p.last+1] < 0 {
		p.last++
	}
	return p
}

func (l *line) String() string {
	var b strings.Builder
	for o := range l.n {
		if l.at[o] > 0 {
			b.WriteString(" e" + string(rune('0'+l.at[o])))
		} else {
			b.WriteByte('+')
		}
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}
