// Package httpstore holds what drivers of stores over HTTP have in common: what they let their users set ([Settings]), how
// the transport is shaped ([Configure]), what an answer to a request for a range has to say ([CheckRange]), and what an
// endpoint may be ([WrongEndpoint]).
package httpstore
