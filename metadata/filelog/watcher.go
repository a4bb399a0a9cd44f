package filelog

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/metadata"
)

const (
	// fullEvery is the time between two passes that look at everything: at files that nobody should write to any more,
	// and at directories whose time has not changed.
	fullEvery = time.Second
	// trustAfter is how long a directory's time must have been the same before it is believed: file systems stamp
	// with a clock that ticks every few milliseconds, so two changes can bear one time.
	trustAfter = 50 * time.Millisecond
	// pausePerLook keeps polling near 5 % of a core however many files there are: 20 times what one call of fstat costs.
	// It is a constant, as the time that a pass takes is, on a network file system, time in which no core is used.
	pausePerLook = 30 * time.Microsecond
	// stretch bounds the pause as a multiple of Config.PollInterval.
	stretch = 10
)

// watcher knows which files there are and how long they are. Its goroutine polls; the subscriptions of a log read what
// it knows. All that it does with files it does in that goroutine and without a lock (D1).
//
// The order of things matters, as the events of one broker must come in their order whatever is written meanwhile.
// Directories are listed before sizes are taken, sizes are taken from a broker's newest file to its oldest, and what a
// pass has found is shown all at once when it ends: so whenever an event shows, everything that was published before it
// shows too, and subscriptions read from the oldest file to the newest.
type watcher struct {
	cfg      Config
	root     *os.Root
	requests chan chan struct{}
	stop     chan struct{}

	// Used by the goroutine alone.
	top      directory
	lastFull time.Time
	brokers  []*watchedBroker // sorted by id
	removed  []*watchedFile   // in this pass
	looks    int              // calls of fstat in this pass
	failing  map[string]bool  // paths that could not be used when last tried

	mu      sync.Mutex
	shown   []*watchedBroker // brokers, as of the last pass that found a change
	version int              // counts those passes
	changed chan struct{}    // closed at the next change
}

// watchedBroker is a broker's directory.
type watchedBroker struct {
	id int32
	// Used by the watcher's goroutine alone.
	dir     directory
	files   []*watchedFile // sorted; a new slice whenever it changes
	listed  bool           // it has changed in this pass
	removed *watchedFile   // the file removed last
	// Guarded by watcher.mu: files and removed, as they are shown. A subscription that never knew of lastGone, nil
	// where nothing has been removed, has missed something.
	shown    []*watchedFile
	lastGone *watchedFile
}

// watchedFile is one file.
type watchedFile struct {
	name fileName
	// Used by the watcher's goroutine alone: handle is open while the file is polled in every pass, measured is its size.
	handle   *os.File
	measured int64
	// Guarded by watcher.mu. size is measured, as it is shown.
	size     int64
	gone     bool
	reported map[metadata.DamageKind]int64 // the highest offset, plus 1, at which it has been reported
	logged   bool
}

// directory is what is needed to see that a directory has changed.
type directory struct {
	path     string
	handle   *os.File
	modified time.Time       // its own time when last looked
	since    time.Time       // when that was first seen, by package time
	foreign  map[string]bool // what does not belong there and has been reported
}

func newWatcher(cfg Config, root *os.Root) *watcher {
	return &watcher{
		cfg:      cfg,
		root:     root,
		requests: make(chan chan struct{}),
		stop:     make(chan struct{}),
		top:      directory{path: "."},
		failing:  make(map[string]bool),
		changed:  make(chan struct{}),
	}
}

// run polls until stop is closed.
func (w *watcher) run() {
	defer w.release()
	timer := time.NewTimer(w.cfg.PollInterval)
	defer timer.Stop()
	for {
		var asked chan struct{}
		select {
		case <-w.stop:
		case asked = <-w.requests:
		case <-timer.C:
		}
		select {
		case <-w.stop:
			return
		default:
		}
		begun := time.Now()
		full := asked != nil || begun.Sub(w.lastFull) >= fullEvery
		if full {
			w.lastFull = begun
		}
		w.pass(begun, full)
		if asked != nil {
			close(asked)
		}
		timer.Reset(min(max(w.cfg.PollInterval, time.Duration(w.looks)*pausePerLook), stretch*w.cfg.PollInterval))
	}
}

// pass looks once. A full pass looks at everything, whatever the directories' times say.
func (w *watcher) pass(now time.Time, full bool) {
	w.looks = 0
	changed := w.listBrokers(now, full)
	for _, b := range w.brokers {
		b.listed = w.listFiles(b, now, full)
		changed = changed || b.listed
	}
	for _, b := range w.brokers {
		// A file that is not the newest any more is measured a last time when the newer one is found.
		changed = w.measure(b, full || b.listed) || changed
	}
	if changed {
		w.show()
	}
}

// show lets the subscriptions see what the pass has found. One that looked in the middle of a pass could find the first
// event of a new file before the last one of the file before.
func (w *watcher) show() {
	w.mu.Lock()
	w.shown = w.brokers
	for _, b := range w.brokers {
		b.shown, b.lastGone = b.files, b.removed
		for _, f := range b.files {
			f.size = f.measured
		}
	}
	for _, f := range w.removed {
		f.size, f.gone = f.measured, true
	}
	w.removed = nil
	w.version++
	wake := w.changed
	w.changed = make(chan struct{})
	w.mu.Unlock()
	close(wake)
}

// list returns the names in a directory if it may have changed. ok is false if it has not, or cannot be listed.
func (w *watcher) list(d *directory, now time.Time, full bool) (names []string, ok bool) {
	if full && d.handle != nil { // it may have been removed and made anew
		_ = d.handle.Close()
		d.handle = nil
	}
	if d.handle == nil {
		handle, err := w.root.Open(d.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, true // removed since its parent was listed
		}
		if w.failed(d.path, err) {
			return nil, false
		}
		d.handle = handle
	}
	w.looks++
	info, err := d.handle.Stat()
	if w.failed(d.path, err) {
		return nil, false
	}
	if !info.ModTime().Equal(d.modified) {
		d.modified, d.since = info.ModTime(), now
	} else if !full && now.Sub(d.since) >= trustAfter {
		return nil, false
	}
	names, err = readNames(w.root, d.path)
	return names, !w.failed(d.path, err)
}

// listBrokers brings w.brokers up to date.
func (w *watcher) listBrokers(now time.Time, full bool) (changed bool) {
	names, ok := w.list(&w.top, now, full)
	if !ok {
		return false
	}
	foreign := make(map[string]bool)
	var brokers []*watchedBroker
	for _, name := range names {
		id, ok := parseBrokerDir(name)
		if info, err := w.root.Lstat(name); ok && err == nil && !info.IsDir() {
			ok = false
		}
		if !ok {
			foreign[name] = true
			continue
		}
		at := slices.IndexFunc(w.brokers, func(b *watchedBroker) bool { return b.id == id })
		if at >= 0 {
			brokers = append(brokers, w.brokers[at])
			continue
		}
		brokers = append(brokers, &watchedBroker{id: id, dir: directory{path: name}})
		changed = true
	}
	w.reportForeign(&w.top, "", foreign, -1)
	for _, b := range w.brokers {
		if !slices.Contains(brokers, b) {
			w.setFiles(b, nil)
			b.dir.release()
			changed = true
		}
	}
	slices.SortFunc(brokers, func(a, b *watchedBroker) int { return cmp.Compare(a.id, b.id) })
	w.brokers = brokers
	return changed
}

// listFiles brings b.files up to date.
func (w *watcher) listFiles(b *watchedBroker, now time.Time, full bool) (changed bool) {
	bases, ok := w.list(&b.dir, now, full)
	if !ok {
		return false
	}
	files, fresh, foreign := w.match(b, bases)
	// A listing beside a creation can show a file and miss one that was created before it. A second one that begins
	// after the first has ended can't.
	for tries := 0; fresh && tries < 5; tries++ {
		again, err := readNames(w.root, b.dir.path)
		if err != nil {
			break
		}
		before := len(files)
		if files, _, foreign = w.match(b, again); len(files) == before {
			break
		}
	}
	w.reportForeign(&b.dir, b.dir.path+"/", foreign, b.id)
	return w.setFiles(b, files)
}

// match turns names into files, those that are known already being the same, in order.
func (w *watcher) match(b *watchedBroker, bases []string) (files []*watchedFile, fresh bool, foreign map[string]bool) {
	foreign = make(map[string]bool)
	for _, base := range bases {
		name, ok := parseFileName(b.id, base)
		if !ok {
			if base != probeName {
				foreign[base] = true
			}
			continue
		}
		at, known := slices.BinarySearchFunc(b.files, name, func(f *watchedFile, n fileName) int { return f.name.compare(n) })
		if known {
			files = append(files, b.files[at])
			continue
		}
		if info, err := w.root.Lstat(name.path()); err == nil && !info.Mode().IsRegular() {
			foreign[base] = true
			continue
		}
		files = append(files, &watchedFile{name: name})
		fresh = true
	}
	slices.SortFunc(files, func(a, b *watchedFile) int { return a.name.compare(b.name) })
	return files, fresh, foreign
}

// setFiles takes over a listing, and tells whether it differs from the last.
func (w *watcher) setFiles(b *watchedBroker, files []*watchedFile) (changed bool) {
	if slices.Equal(files, b.files) {
		return false
	}
	for _, f := range b.files {
		if !slices.Contains(files, f) {
			f.release()
			delete(w.failing, f.name.path())
			w.removed = append(w.removed, f)
			b.removed = f
		}
	}
	b.files = files
	return true
}

// measure takes the sizes, from the newest file to the oldest. Written to are the newest file, and, by a writer about
// to learn that it is overtaken, the last of the epoch before; the others are looked at in full passes.
func (w *watcher) measure(b *watchedBroker, full bool) (changed bool) {
	epochs := 0 // seen so far
	for i := len(b.files) - 1; i >= 0; i-- {
		f := b.files[i]
		last := i == len(b.files)-1 || b.files[i+1].name.epoch != f.name.epoch
		if last {
			epochs++
		}
		hot := last && epochs <= 2
		if !hot {
			f.release()
		}
		if hot || full {
			changed = w.measureFile(f, hot) || changed
		}
	}
	return changed
}

func (w *watcher) measureFile(f *watchedFile, hot bool) (changed bool) {
	w.looks++
	var info fs.FileInfo
	var err error
	switch {
	case !hot:
		info, err = w.root.Lstat(f.name.path())
	case f.handle == nil:
		f.handle, err = w.root.Open(f.name.path())
		if err != nil {
			break
		}
		fallthrough
	default:
		info, err = f.handle.Stat()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false // the next listing says so
	}
	if w.failed(f.name.path(), err) {
		f.release() // a handle may have gone stale with its file server
		// The size is shown all the same: a subscription that cannot read the file either learns that it misses
		// something (M3).
		if info, err = w.root.Lstat(f.name.path()); err != nil {
			return false
		}
	}
	if info.Size() <= f.measured {
		return false
	}
	f.measured = info.Size()
	return true
}

// failed tells whether err is an error, and reports a path when it begins to fail.
func (w *watcher) failed(path string, err error) bool {
	if err == nil {
		if len(w.failing) > 0 {
			delete(w.failing, path)
		}
		return false
	}
	if !w.failing[path] {
		w.failing[path] = true
		broker := int32(-1)
		if id, ok := parseBrokerDir(path); ok {
			broker = id
		}
		w.report(metadata.Damage{Kind: metadata.DamageUnreadable, Name: path, Offset: -1, BrokerID: broker, Err: err}, true)
	}
	return true
}

var errForeign = errors.New("it does not belong here and is left alone")

// reportForeign reports names that were not there at the last listing.
func (w *watcher) reportForeign(d *directory, prefix string, foreign map[string]bool, broker int32) {
	var fresh []string
	for name := range foreign {
		if !d.foreign[name] {
			fresh = append(fresh, name)
		}
	}
	slices.Sort(fresh)
	for _, name := range fresh {
		w.report(metadata.Damage{Kind: metadata.DamageForeign, Name: prefix + name, Offset: -1, BrokerID: broker, Err: errForeign}, true)
	}
	d.foreign = foreign
}

// reportFile reports damage in a file, once for each place however many read it, with one log line for each file.
func (w *watcher) reportFile(f *watchedFile, kind metadata.DamageKind, offset int64, err error) {
	w.mu.Lock()
	if offset < f.reported[kind] {
		w.mu.Unlock()
		return
	}
	if f.reported == nil {
		f.reported = make(map[metadata.DamageKind]int64)
	}
	f.reported[kind] = offset + 1
	log := !f.logged
	f.logged = true
	w.mu.Unlock()
	w.report(metadata.Damage{Kind: kind, Name: f.name.path(), Offset: offset, BrokerID: f.name.broker, Err: err}, log)
}

func (w *watcher) report(d metadata.Damage, log bool) {
	if hook := w.cfg.Hooks.Damage; hook != nil {
		hook(d)
	}
	if log {
		w.cfg.Logger.Warn("metadata log: something cannot be used, everything else goes on",
			"kind", string(d.Kind), "dir", w.cfg.Dir, "name", d.Name, "offset", d.Offset, "err", d.Err)
	}
}

// release closes what the goroutine has opened.
func (w *watcher) release() {
	w.top.release()
	for _, b := range w.brokers {
		b.dir.release()
		for _, f := range b.files {
			f.release()
		}
	}
}

func (d *directory) release() {
	if d.handle != nil {
		_ = d.handle.Close()
		d.handle = nil
	}
}

func (f *watchedFile) release() {
	if f.handle != nil {
		_ = f.handle.Close()
		f.handle = nil
	}
}
