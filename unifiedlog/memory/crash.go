package memory

// Flush makes what the log holds survive [Log.Crash], and returns the end up to which it does.
func (l *Log) Flush() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushed = l.end
	return l.flushed
}

// Crash does what a crash of the machine and a recovery do: everything after the last Flush is lost, the epochs that
// began there included, and the log has no role until Lead or Follow. It returns the new end. After it Lead needs a new
// epoch (B6), Follow does not.
func (l *Log) Crash() int64 {
	l.mu.Lock()
	before := l.end
	l.truncateTo(max(l.flushed, l.start))
	l.role = idle
	end := l.end
	l.unlockMoved(end != before)
	return end
}
