// Package faulty is what the fakes of stores have in common whatever protocol they speak: what records the requests and
// chooses the fault of each ([Script]), the course of one request with all that may go wrong on it ([Serve]), and the
// sending of an object that may arrive otherwise than it is ([Body]).
package faulty
