package metadata

// ranking orders partitions by how many entries are kept of them, which is how far behind they are: a segment takes
// about the same time whatever it holds. It is a list of partitions for each count, so a change costs the same for ten
// partitions and for ten thousand. Among equals the one that changed last comes first.
type ranking struct {
	byCount []*followed // the heads of the lists; index 0 stays empty
	highest int         // no list above it has a partition
}

// first returns the partition farthest behind. It is for a ranking that is not empty.
func (r *ranking) first() *followed {
	for r.byCount[r.highest] == nil {
		r.highest--
	}
	return r.byCount[r.highest]
}

// move puts p into the list of its new count.
func (r *ranking) move(p *followed, count int) {
	if count == p.ranked {
		return
	}
	if p.ranked > 0 {
		if p.prev != nil {
			p.prev.next = p.next
		} else {
			r.byCount[p.ranked] = p.next
		}
		if p.next != nil {
			p.next.prev = p.prev
		}
	}
	p.ranked, p.prev, p.next = count, nil, nil
	if count == 0 {
		return
	}
	for len(r.byCount) <= count {
		r.byCount = append(r.byCount, nil)
	}
	p.next = r.byCount[count]
	if p.next != nil {
		p.next.prev = p
	}
	r.byCount[count] = p
	r.highest = max(r.highest, count)
}
