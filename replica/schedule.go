package replica

import (
	"container/heap"
	"time"
)

// schedule keeps items by their deadline, so that ten thousand partitions need neither a timer each nor a scan. An item
// is in it at most once.
type schedule[T any] struct{ heap deadlines[T] }

// deadline is an item's place in a schedule; the zero value is in none.
type deadline[T any] struct {
	item T
	at   time.Time
	// place is the index in the heap + 1, 0 for none.
	place int
}

// set puts the item into the schedule, or moves it.
func (s *schedule[T]) set(d *deadline[T], item T, at time.Time) {
	d.item, d.at = item, at
	if d.place == 0 {
		heap.Push(&s.heap, d)
		return
	}
	heap.Fix(&s.heap, d.place-1)
}

// clear takes the item out.
func (s *schedule[T]) clear(d *deadline[T]) {
	if d.place > 0 {
		heap.Remove(&s.heap, d.place-1)
	}
}

// next returns the earliest deadline, false if there is none.
func (s *schedule[T]) next() (time.Time, bool) {
	if len(s.heap) == 0 {
		return time.Time{}, false
	}
	return s.heap[0].at, true
}

// pop takes out the item of the earliest deadline if that has come.
func (s *schedule[T]) pop(now time.Time) (item T, ok bool) {
	if len(s.heap) == 0 || s.heap[0].at.After(now) {
		return item, false
	}
	return heap.Pop(&s.heap).(*deadline[T]).item, true
}

// deadlines implements heap.Interface.
type deadlines[T any] []*deadline[T]

func (d deadlines[T]) Len() int           { return len(d) }
func (d deadlines[T]) Less(i, j int) bool { return d[i].at.Before(d[j].at) }

func (d deadlines[T]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i+1, j+1
}

func (d *deadlines[T]) Push(x any) {
	item := x.(*deadline[T])
	*d = append(*d, item)
	item.place = len(*d)
}

func (d *deadlines[T]) Pop() any {
	last := len(*d) - 1
	item := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	item.place = 0
	return item
}
