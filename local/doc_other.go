//go:build !unix

// Package local stores segments as files in a directory that all brokers share. It exists on Unix systems only, where
// link(2) creates a name without replacing one and fsync works on directories; on this system it holds no more than
// the interface [FS], and a program that opens a store does not compile.
package local
