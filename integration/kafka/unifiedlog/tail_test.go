package unifiedlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/leader"
)

// tail is a partition's log that somebody else writes: the files of a running broker. It implements leader.Log.
type tail struct {
	dir string

	mu      sync.Mutex
	batches []placed
	// file is the segment being read on, size how much of it is known.
	base, size int64
}

// placed is a batch and where it stands.
type placed struct {
	batch.Header
	segment, position int64
}

// poll looks for what has been appended, and tells whether there is any. A batch counts once it is there whole: its
// length, and its checksum, since a write is not seen at once.
func (l *tail) poll() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.batches)
	bases, err := l.bases()
	if err != nil {
		return false, err
	}
	if before == 0 && l.size == 0 {
		l.base = bases[0]
	}
	for {
		if err := l.pollSegment(); err != nil {
			return false, err
		}
		// The next segment is made when nothing more comes into this one, and is named by the log's end.
		i, found := slices.BinarySearch(bases, l.base)
		if !found || i+1 == len(bases) || bases[i+1] != l.end() {
			return len(l.batches) > before, nil
		}
		l.base, l.size = bases[i+1], 0
	}
}

// bases returns the segments' offsets.
func (l *tail) bases() (bases []int64, err error) {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.log"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".log"), 10, 64)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	slices.Sort(bases)
	if len(bases) == 0 {
		return nil, fmt.Errorf("no segment in %s", l.dir)
	}
	return bases, nil
}

func (l *tail) path(segment int64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%020d.log", segment))
}

func (l *tail) pollSegment() error {
	file, err := os.Open(l.path(l.base))
	if err != nil {
		return err
	}
	defer file.Close()
	fresh, err := io.ReadAll(io.NewSectionReader(file, l.size, 1<<30))
	if err != nil {
		return err
	}
	for len(fresh) > 0 {
		header, err := batch.ParseHeader(fresh)
		if errors.Is(err, batch.ErrPartial) || err == nil && batch.VerifyCRC(fresh[:header.Length]) != nil {
			return nil
		}
		if err != nil {
			return err
		}
		l.batches = append(l.batches, placed{header, l.base, l.size})
		l.size += int64(header.Length)
		fresh = fresh[header.Length:]
	}
	return nil
}

func (l *tail) end() int64 {
	if len(l.batches) == 0 {
		return l.base
	}
	return l.batches[len(l.batches)-1].NextOffset()
}

// Start implements leader.Log. Nothing is deleted here.
func (l *tail) Start() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.batches) == 0 {
		return l.base
	}
	return l.batches[0].BaseOffset
}

// End implements leader.Log.
func (l *tail) End() (int64, int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.batches) == 0 {
		return l.base, -1
	}
	return l.end(), l.batches[len(l.batches)-1].LeaderEpoch
}

// Read implements leader.Log.
func (l *tail) Read(_ context.Context, offset int64, dst []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.batches), func(i int) bool { return l.batches[i].NextOffset() > offset })
	switch {
	case i == len(l.batches):
		return 0, nil
	case l.batches[i].BaseOffset < offset:
		return 0, leader.ErrInsideBatch
	case l.batches[i].Length > len(dst):
		return 0, &leader.ShortBufferError{Need: l.batches[i].Length}
	}
	for ; i < len(l.batches) && n+l.batches[i].Length <= len(dst); i++ {
		// Batches of a segment stand back to back, and are read together.
		first, length := l.batches[i], 0
		for ; i < len(l.batches) && l.batches[i].segment == first.segment && n+length+l.batches[i].Length <= len(dst); i++ {
			length += l.batches[i].Length
		}
		i--
		if err := readAt(l.path(first.segment), dst[n:n+length], first.position); err != nil {
			return 0, err
		}
		n += length
	}
	return n, nil
}

func readAt(path string, dst []byte, position int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.ReadAt(dst, position)
	return err
}
