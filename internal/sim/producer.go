package sim

import (
	"context"
	"sync"
	"time"
)

// Acks says when a producer's record counts as written.
type Acks int

// The two that matter here.
const (
	AcksLeader Acks = iota // acks=1: the leader has it
	AcksAll                // acks=all: every replica in sync has it
)

// Producer produces records to one partition at a steady pace, one a batch, wherever the partition's leader is.
type Producer struct {
	cluster *Cluster
	part    *Partition
	acks    Acks
	arm     *actor
	cancel  context.CancelFunc
	ctx     context.Context
	done    sync.WaitGroup

	mu        sync.Mutex
	sent      int
	refused   int
	acked     int
	latencies []time.Duration // from the append to the acknowledgement
	inFlight  int
	answered  chan bool // of a producer that waits for each acknowledgement
}

// Load starts a producer that sends a record every so often and does not wait for acknowledgements.
func (c *Cluster) Load(part *Partition, every time.Duration, acks Acks) *Producer {
	return c.load(part, every, acks, false)
}

// load is Load; a producer that is tireless sends while all others are paused.
func (c *Cluster) load(part *Partition, every time.Duration, acks Acks, tireless bool) *Producer {
	p := c.newProducer(part, acks)
	p.done.Go(func() {
		for p.arm.take(p.ctx, p.arm.next(), every) == nil {
			if c.paused.Load() && !tireless {
				_ = p.arm.take(p.ctx, p.arm.next(), time.Second)
				continue
			}
			p.send()
		}
	})
	return p
}

// Worker starts a producer that sends a record with acks=all, waits for its acknowledgement, and sends the next.
func (c *Cluster) Worker(part *Partition) *Producer {
	p := c.newProducer(part, AcksAll)
	p.answered = make(chan bool, 1)
	p.done.Go(func() {
		for p.arm.take(p.ctx, p.arm.next(), time.Microsecond) == nil {
			if !p.send() {
				if p.arm.take(p.ctx, p.arm.next(), 20*time.Millisecond) != nil {
					return
				}
				continue
			}
			select {
			case <-p.answered:
			case <-p.ctx.Done():
				return
			}
		}
	})
	return p
}

func (c *Cluster) newProducer(part *Partition, acks Acks) *Producer {
	p := &Producer{cluster: c, part: part, acks: acks, arm: c.instants.actor("producer %d", len(c.producers))}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	c.producers = append(c.producers, p)
	return p
}

// send produces one record and tells whether a leader took it.
func (p *Producer) send() bool {
	if most := p.cluster.records.Load(); most > 0 && p.cluster.sent.Add(1) > most {
		return false
	}
	leader := p.cluster.process(p.cluster.controller.view(p.part).leader)
	if leader == nil {
		p.note(func() { p.refused++ })
		return false
	}
	var done func(bool)
	if p.acks == AcksAll {
		begun := time.Now()
		p.note(func() { p.inFlight++ })
		done = func(acknowledged bool) {
			p.note(func() {
				p.inFlight--
				if acknowledged {
					p.acked++
					p.latencies = append(p.latencies, time.Since(begun))
				}
			})
			if p.answered != nil {
				p.answered <- acknowledged
			}
		}
	}
	if _, err := leader.produce(p.part, p.part.nextValue(p.cluster.cfg.ValueBytes), done); err != nil {
		p.note(func() {
			p.refused++
			if done != nil {
				p.inFlight--
			}
		})
		return false
	}
	p.note(func() { p.sent++ })
	return true
}

func (p *Producer) note(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// pause keeps every producer from sending, or ends that.
func (c *Cluster) pause(on bool) { c.paused.Store(on) }

// Stop ends the producer.
func (p *Producer) Stop() {
	p.cancel()
	p.done.Wait()
}

// Sent returns how many records leaders took, and how many sends found none that did.
func (p *Producer) Sent() (sent, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.refused
}

// Acked returns how many records were acknowledged, and how many still wait.
func (p *Producer) Acked() (acked, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked, p.inFlight
}

// TakeLatencies returns how long each acknowledgement took since the last call.
func (p *Producer) TakeLatencies() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.latencies
	p.latencies = nil
	return taken
}
