//go:build unix

package local

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// temporaryMark separates the parts of a temporary's name. Keys never hold it, so no object looks like a temporary,
// whatever its name ends in (G9), and no temporary like an object.
const temporaryMark = "~"

const (
	temporaryPrefix      = ".put" + temporaryMark
	temporaryRandomBytes = 12
	maxTemporaryHost     = 64
)

// temporaryNames makes names that no other goroutine, process or host uses (N9):
//
//	.put~<host>~<pid>~<24 hex digits>
//
// The random part alone makes them unique, containers that share a host name and a pid included; host and pid are for
// the operator who finds one. It also knows which temporaries this driver holds.
type temporaryNames struct {
	owner string // ".put~<host>~<pid>~"
	mu    *sync.Mutex
	held  map[string]struct{}
}

func newTemporaryNames() temporaryNames {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, host)
	host = host[:min(len(host), maxTemporaryHost)]
	return temporaryNames{
		owner: fmt.Sprintf("%s%s%s%d%s", temporaryPrefix, host, temporaryMark, os.Getpid(), temporaryMark),
		mu:    new(sync.Mutex),
		held:  make(map[string]struct{}),
	}
}

// hold makes a name in the directory and counts it as held until release.
func (t temporaryNames) hold(dir string) string {
	var random [temporaryRandomBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	name := join(dir, t.owner+hex.EncodeToString(random[:]))
	t.mu.Lock()
	t.held[name] = struct{}{}
	t.mu.Unlock()
	return name
}

func (t temporaryNames) release(name string) {
	t.mu.Lock()
	delete(t.held, name)
	t.mu.Unlock()
}

func (t temporaryNames) holds(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, held := t.held[name]
	return held
}

// isTemporary tells whether the last element of a path is of the form that temporaryNames makes, on any host. What only
// looks like one is foreign, and left alone.
func isTemporary(base string) bool {
	rest, found := strings.CutPrefix(base, temporaryPrefix)
	if !found {
		return false
	}
	parts := strings.Split(rest, temporaryMark)
	if len(parts) != 3 || parts[0] == "" {
		return false
	}
	if pid, err := strconv.Atoi(parts[1]); err != nil || pid <= 0 || strconv.Itoa(pid) != parts[1] {
		return false
	}
	random, err := hex.DecodeString(parts[2])
	return err == nil && len(random) == temporaryRandomBytes && hex.EncodeToString(random) == parts[2]
}

// join is path.Join for parts that are clean already.
func join(dir, base string) string {
	if dir == "." {
		return base
	}
	return dir + "/" + base
}
