// Package unifiedlog has Kafka judge what a follower has written: its own tool reads the files, a real broker starts on
// them, and a leader follows the files of a running broker and replicates them.
package unifiedlog
