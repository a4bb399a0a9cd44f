// Package walstorage defines the contract between walhop and an object store: [WalStorageManager], which stores
// immutable segments, the identity of a segment ([SegmentID]), the one object key layout ([Keys]), the errors
// ([Error] and its kinds) and the hooks that metrics and traces hang on ([Hooks], [Observe]).
//
// The leader of a partition uploads segments, its followers fetch them, a sweeper deletes them an hour later. Nothing
// is only in the store: the leader's own log always holds the bytes too, so a store that loses a segment costs time and
// money but no record.
//
// Most backends do not implement [WalStorageManager] themselves. They implement the smaller objectstore.Driver, one
// attempt per call, and objectstore.Manager adds retry, deadlines, argument checks and hooks. A store that is no
// object store can implement the interface of this package directly; package conformance proves either.
//
// This package depends on the standard library and github.com/google/uuid alone.
package walstorage
