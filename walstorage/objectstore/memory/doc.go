// Package memory is the reference driver of package objectstore: objects in memory, with faults by script. It is the
// model that the conformance suite is tested on, and it is for everyone's tests: what does your code do when an upload
// takes effect and says that it failed, when a page of a list comes twice, when a request never returns?
//
// Faults are decided call by call by a function given to [Driver.Fault]; [Sequence] makes one of a list. Time is package
// time's, so that a test in a testing/synctest bubble decides how long things take; nothing here is random, and the
// package starts no goroutine: an upload that lands late ([Fault].LandLate) appears to whoever looks after it is due.
package memory
