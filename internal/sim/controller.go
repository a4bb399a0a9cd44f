package sim

import (
	"slices"
	"sync"
)

// registration is what the controller knows of a partition. Brokers get it as a whole.
type registration struct {
	part     *Partition
	replicas []int32
	isr      []int32
	leader   int32 // nobody: no leader
	epoch    int32 // leader epoch, new at every election and every restart of a leader (B6)
	version  int   // counts the changes
	// unclean says that the leader was chosen though it may lack what was committed. It stays until one so chosen has
	// begun to lead.
	unclean bool
	// absent says that there is no such partition: not yet, or not any more.
	absent bool
	// brokers are the broker epochs of the replicas that are alive.
	brokers map[int32]int64
}

const nobody = int32(-1)

// controller elects leaders and keeps the ISR, as Kafka's does. A broker that was down is out of the ISR before it is
// back, unless it was the last member.
type controller struct {
	cluster *Cluster

	mu       sync.Mutex
	parts    []*registration
	epochs   map[int32]int64 // broker epochs of those that are alive
	lastOf   int64           // the newest broker epoch given
	elected  int             // elections, clean ones and those that followed a death
	unclean  int
	isrMoves int
}

func newController(c *Cluster) *controller {
	return &controller{cluster: c, epochs: map[int32]int64{}}
}

// add registers a new partition whose first replica leads. Without replicas it is none yet.
func (k *controller) add(part *Partition, replicas []int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parts = append(k.parts, &registration{
		part: part, replicas: replicas, isr: slices.Clone(replicas), leader: nobody, epoch: -1, absent: len(replicas) == 0,
	})
}

// create makes a partition of one that was none yet. Its leader and ISR are those of the replicas that are alive.
func (k *controller) create(part *Partition, replicas []int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var alive []int32
	for _, replica := range replicas {
		if _, is := k.epochs[replica]; is {
			alive = append(alive, replica)
		}
	}
	r := k.of(part)
	if !r.absent || r.epoch >= 0 || len(alive) == 0 {
		return false
	}
	r.absent, r.replicas, r.isr = false, replicas, alive
	k.lead(r, alive[0], false)
	return true
}

// remove deletes a partition for good.
func (k *controller) remove(part *Partition) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(part)
	if r.absent {
		return false
	}
	r.absent, r.leader = true, nobody
	r.version++
	k.cluster.trace.add("controller", r.part.Topic+" is deleted")
	k.publish(r)
	return true
}

// led notes that a leader has begun to lead in the epoch.
func (k *controller) led(part *Partition, epoch int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.of(part); r.epoch == epoch {
		r.unclean = false
	}
}

// present returns the partitions that there are.
func (k *controller) present() (parts []*Partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.parts {
		if !r.absent {
			parts = append(parts, r.part)
		}
	}
	return parts
}

// register gives a broker that starts its epoch and leads or follows again what it is a replica of.
func (k *controller) register(broker int32) (epoch int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fence(broker)
	k.lastOf++
	k.epochs[broker] = k.lastOf
	return k.lastOf
}

// ready elects leaders for the partitions that have waited for this broker, and tells it what it is a replica of.
func (k *controller) ready(broker int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.parts {
		switch {
		case r.absent, !slices.Contains(r.replicas, broker):
		case r.epoch < 0 && broker != r.replicas[0]: // the first leader is the first replica
		case r.leader == nobody && slices.Contains(r.isr, broker):
			// The last member of the ISR comes back with what its disk kept: what it lost is lost (KIP-966).
			k.lead(r, broker, r.epoch >= 0)
		default:
			k.publish(r)
		}
	}
}

// died is what the controller does when a broker's session has ended.
func (k *controller) died(broker int32, epoch int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epochs[broker] == epoch {
		k.fence(broker)
	}
}

// fence takes a dead broker out of every ISR and elects others where it led.
func (k *controller) fence(broker int32) {
	if _, alive := k.epochs[broker]; !alive {
		return
	}
	delete(k.epochs, broker)
	for _, r := range k.parts {
		if r.absent {
			continue
		}
		if len(r.isr) > 1 && slices.Contains(r.isr, broker) {
			r.isr = without(r.isr, broker)
			r.version++
		}
		if r.leader != broker {
			k.publish(r)
			continue
		}
		if k.cluster.cfg.Break.EpochsRepeat {
			continue // it will lead on where it comes back
		}
		next := nobody
		for _, candidate := range r.replicas {
			if _, alive := k.epochs[candidate]; alive && slices.Contains(r.isr, candidate) {
				next = candidate
				break
			}
		}
		k.lead(r, next, false)
	}
}

// lead makes broker the leader in a new epoch. It is called with mu held.
func (k *controller) lead(r *registration, broker int32, unclean bool) {
	r.leader, r.unclean = broker, unclean || r.unclean
	r.epoch++
	r.version++
	if broker != nobody {
		k.elected++
		if unclean {
			k.unclean++
		}
	}
	k.cluster.trace.add("controller", r.part.Topic+" is led by %d in epoch %d", int64(broker), int64(r.epoch))
	k.publish(r)
}

// elect makes an alive member of the ISR the leader. It tells whether it could.
func (k *controller) elect(part *Partition, broker int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(part)
	if _, alive := k.epochs[broker]; !alive || r.absent || !slices.Contains(r.isr, broker) {
		return false
	}
	k.cluster.count("election, clean")
	k.lead(r, broker, false)
	return true
}

// electUnclean makes an alive replica the leader and the only member of the ISR, whatever it lacks.
func (k *controller) electUnclean(part *Partition, broker int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(part)
	if _, alive := k.epochs[broker]; !alive || r.absent || !slices.Contains(r.replicas, broker) {
		return false
	}
	k.cluster.count("election, unclean")
	r.isr = []int32{broker}
	k.lead(r, broker, true)
	return true
}

// bump gives the leader a new epoch, as some changes of a partition do.
func (k *controller) bump(part *Partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(part)
	if r.absent || r.leader == nobody {
		return
	}
	k.lead(r, r.leader, false)
}

// addReplica makes broker one more replica.
func (k *controller) addReplica(part *Partition, broker int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(part)
	if !r.absent && !slices.Contains(r.replicas, broker) {
		r.replicas = append(slices.Clone(r.replicas), broker)
		r.version++
		k.publish(r)
	}
}

// alterISR is the leader's request to change the ISR. It returns the registration after it, and whether the broker still
// leads in that epoch; a request made on an older version changes nothing.
func (k *controller) alterISR(part *Partition, leader, epoch int32, version int, isr []int32) (now registration, leads bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.of(part)
	if r.absent || r.leader != leader || r.epoch != epoch {
		return registration{}, false
	}
	allowed := r.version == version
	for _, member := range isr {
		if _, alive := k.epochs[member]; !alive && !slices.Contains(r.isr, member) {
			allowed = false
		}
	}
	if allowed {
		r.isr = slices.Clone(isr)
		r.version++
		k.isrMoves++
		k.cluster.trace.add("controller", r.part.Topic+" has the ISR %d", packed(isr))
	}
	now = *r
	now.isr = slices.Clone(r.isr)
	return now, true
}

// publish sends the registration to every replica that is alive. It is called with mu held.
func (k *controller) publish(r *registration) {
	copied := *r
	copied.replicas, copied.isr = slices.Clone(r.replicas), slices.Clone(r.isr)
	copied.brokers = map[int32]int64{}
	for _, replica := range r.replicas {
		if epoch, alive := k.epochs[replica]; alive {
			copied.brokers[replica] = epoch
		}
	}
	for _, replica := range r.replicas {
		if _, alive := copied.brokers[replica]; alive {
			k.cluster.deliver(replica, copied)
		}
	}
}

// of returns the registration of a partition. It is called with mu held.
func (k *controller) of(part *Partition) *registration { return k.parts[part.index] }

// view returns a copy of the registration of a partition.
func (k *controller) view(part *Partition) registration {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := *k.of(part)
	r.replicas, r.isr = slices.Clone(r.replicas), slices.Clone(r.isr)
	slices.Sort(r.isr)
	return r
}

// without returns list less one member, in a slice of its own.
func without(list []int32, member int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(m int32) bool { return m == member })
}

// packed shows a small set of brokers in one number, for the trace: brokers 1 and 3 are 13.
func packed(brokers []int32) int64 {
	sorted := slices.Clone(brokers)
	slices.Sort(sorted)
	n := int64(0)
	for _, b := range sorted {
		n = 10*n + int64(b)
	}
	return n
}
