// Package batchtest makes record batches for tests: valid ones ([Make], [Spec]), and the byte vectors of public bug
// reports ([V1] to [V10]).
package batchtest
