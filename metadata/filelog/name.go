package filelog

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

const suffix = ".events"

// fileName is what the name of a file says.
type fileName struct {
	broker int32
	epoch  int64
	number uint32 // counts the files of the epoch, with holes
}

func brokerDir(broker int32) string { return strconv.Itoa(int(broker)) }

// parseBrokerDir reads the name of a broker's directory.
func parseBrokerDir(name string) (int32, bool) {
	broker, err := strconv.ParseInt(name, 10, 32)
	return int32(broker), err == nil && broker >= 0 && brokerDir(int32(broker)) == name
}

// base returns the name in the broker's directory. Names sort as the files were begun.
func (n fileName) base() string { return fmt.Sprintf("%019d-%010d%s", n.epoch, n.number, suffix) }

// path returns the name in Config.Dir.
func (n fileName) path() string { return brokerDir(n.broker) + "/" + n.base() }

// parseFileName reads a name in a broker's directory.
func parseFileName(broker int32, base string) (fileName, bool) {
	epoch, number, ok := strings.Cut(strings.TrimSuffix(base, suffix), "-")
	if !ok {
		return fileName{}, false
	}
	e, errEpoch := strconv.ParseInt(epoch, 10, 64)
	n, errNumber := strconv.ParseUint(number, 10, 32)
	name := fileName{broker: broker, epoch: e, number: uint32(n)}
	return name, errEpoch == nil && errNumber == nil && e >= 0 && name.base() == base
}

// compare orders the files of one broker as they were begun.
func (n fileName) compare(other fileName) int {
	return cmp.Or(cmp.Compare(n.epoch, other.epoch), cmp.Compare(n.number, other.number))
}
