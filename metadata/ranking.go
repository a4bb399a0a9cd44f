package metadata

// ranking orders partitions by how many entries are kept of them, which is how far behind they are: a segment takes
// about the same time whatever it holds. It is a list of partitions for each count, so a change costs the same for ten
// partitions and for ten thousand. Among equals the one that has stood still longest comes first.
type ranking struct {
	byCount []rank // index 0 stays empty
	highest int    // no list above it has a partition
}

// rank is the list of the partitions with one count, the first to have come first.
type rank struct{ first, last *followed }

// first returns the partition farthest behind. It is for a ranking that is not empty.
func (r *ranking) first() *followed {
	for r.byCount[r.highest].first == nil {
		r.highest--
	}
	return r.byCount[r.highest].first
}

// move puts p into the list of its new count.
func (r *ranking) move(p *followed, count int) {
	if count == p.ranked {
		return
	}
	if p.ranked > 0 {
		r.byCount[p.ranked].remove(p)
	}
	p.ranked = count
	if count == 0 {
		return
	}
	for len(r.byCount) <= count {
		r.byCount = append(r.byCount, rank{})
	}
	r.byCount[count].add(p)
	r.highest = max(r.highest, count)
}

func (r *rank) add(p *followed) {
	p.prev, p.next = r.last, nil
	if r.last != nil {
		r.last.next = p
	} else {
		r.first = p
	}
	r.last = p
}

func (r *rank) remove(p *followed) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		r.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		r.last = p.prev
	}
	p.prev, p.next = nil, nil
}
