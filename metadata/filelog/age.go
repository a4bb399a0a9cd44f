package filelog

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// dropAged removes what is older than the retention (M6). It is called when a writer has begun a new file, so the
// writer's own files all have a successor but the newest: a file whose successor was begun before the retention holds
// nothing younger. Files of other brokers are their own business, unless the broker has gone: what was begun twice
// the retention ago has not been written to since it was RotateAfter old, which is half the retention at most.
func (w *writer) dropAged() {
	now := w.cfg.Now()
	names, err := readNames(w.root, ".")
	if err != nil {
		return // the next file is soon enough
	}
	for _, name := range names {
		broker, ok := parseBrokerDir(name)
		if !ok {
			continue
		}
		files, err := listFiles(w.root, broker)
		if err != nil {
			continue
		}
		if broker == w.cfg.Broker {
			w.dropOwn(files, now.Add(-w.cfg.Retention))
			continue
		}
		w.dropOthers(files, now.Add(-2*w.cfg.Retention))
	}
}

// dropOthers removes the files of a broker that has gone, the oldest first, that were created before the time given. One
// that does not say when, as its writer was killed before it had a header, goes with a later one: else it would keep all
// of them for ever.
func (w *writer) dropOthers(files []fileName, before time.Time) {
	aged := 0
	for i, file := range files {
		created, err := readCreated(w.root, file)
		if err == nil && !created.Before(before) {
			break
		}
		if err == nil {
			aged = i + 1
		}
	}
	for _, file := range files[:aged] {
		_ = w.root.Remove(file.path()) // one that stays is met again
	}
}

// dropOwn removes the writer's own files, the oldest first, whose successor was created before the time given. A file
// with a damaged header says nothing and goes with the next.
func (w *writer) dropOwn(files []fileName, before time.Time) {
	aged := 0
	for i := 1; i < len(files); i++ {
		created, err := readCreated(w.root, files[i])
		if err == nil && !created.Before(before) {
			break
		}
		if err == nil {
			aged = i
		}
	}
	for _, file := range files[:aged] {
		_ = w.root.Remove(file.path()) // one that stays is met again
	}
}

// listFiles lists a broker's files in order.
func listFiles(root *os.Root, broker int32) ([]fileName, error) {
	bases, err := readNames(root, brokerDir(broker))
	if err != nil {
		return nil, err
	}
	var files []fileName
	for _, base := range bases {
		if name, ok := parseFileName(broker, base); ok {
			files = append(files, name)
		}
	}
	slices.SortFunc(files, fileName.compare)
	return files, nil
}

// readCreated reads when a file was begun.
func readCreated(root *os.Root, name fileName) (time.Time, error) {
	file, err := root.Open(name.path())
	if err != nil {
		return time.Time{}, err
	}
	defer file.Close()
	var header [headerLength]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			return time.Time{}, errHeader
		}
		return time.Time{}, err
	}
	return name.parseHeader(header[:])
}
