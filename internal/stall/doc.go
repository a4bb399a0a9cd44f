// Package stall ends an attempt in which no byte has moved for some time (W6, W8): the deadline of an attempt has to
// leave room for a large body, and a connection that is dead is noticed long before. The drivers of stores over HTTP
// share it.
//
// A driver watches one attempt with [Start], sends its bodies through [Watch.Upload], reads the answer's with
// [Watch.ReadFull], asks [Watch.Cause] why the attempt has ended, and calls [Watch.End].
package stall
