package unifiedlog

import (
	"fmt"
	"strconv"
	"strings"
)

// The files of a partition, named as Kafka names them: an offset of 20 digits and a suffix, and two of fixed names.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"

	epochsName   = "leader-epoch-checkpoint"
	metadataName = "partition.metadata"

	// temporarySuffix is that of a small file before its rename; Kafka's is the same.
	temporarySuffix = ".tmp"
	// Kafka's own, while it deletes or cleans.
	deletedSuffix = ".deleted"
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
)

// offsetDigits is the number of digits of an offset in a file name.
const offsetDigits = 20

// fileName returns the name of a file for the offset.
func fileName(offset int64, suffix string) string {
	return fmt.Sprintf("%0*d%s", offsetDigits, offset, suffix)
}

// parseName returns the offset in a file name with the suffix.
func parseName(name, suffix string) (offset int64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != offsetDigits {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil
}
