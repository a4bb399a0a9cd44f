package sim

// reach is something that a run of many seeds must come to, if it has at least so many.
type reach struct {
	what string
	by   int
}

// mustReach is every fault and every state that the seeds are there for. One that was never reached is a defect of the
// simulator.
var mustReach = []reach{}
