// Package httpstore holds what drivers of stores over HTTP have in common: what they let their users set ([Settings]), how
// the transport is shaped ([Configure]), how connections are opened beforehand ([Warm]), what a status means by itself
// ([KindOfStatus]), what an answer to a request for a range has to say ([CheckRange]), how long another one may be
// ([Bound]), what no answer may be ([RefuseUpgrade]), what an endpoint may be ([WrongEndpoint]), and how a Manager comes on
// top ([Manage]).
package httpstore
