package filelog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
)

// AppendRaw writes a frame that holds the bytes, as a writer of a later version might, or one that does not look before
// it writes.
func AppendRaw(t testing.TB, l *Log, event []byte) {
	AppendUnfinished(t, l, event, 0)()
}

// AppendUnfinished writes a frame of which all from the byte given on is zero at first, as a network file system may
// show it, and returns what fills it in.
func AppendUnfinished(t testing.TB, l *Log, event []byte, from int) (finish func()) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	w := l.writer
	b := append(make([]byte, frameHeaderLength), event...)
	w.name.putFrame(b, w.offset, time.Now())
	zero := append(append([]byte(nil), b[:from]...), make([]byte, len(b)-from)...)
	file, offset := w.file, w.offset
	_, err := file.WriteAt(zero, offset)
	require.NoError(t, err)
	w.offset += int64(len(b))
	return func() {
		_, err := file.WriteAt(b, offset)
		require.NoError(t, err)
	}
}

// WriteFutureFile writes a file whose format version is not known.
func WriteFutureFile(t testing.TB, dir string, broker int32, epoch int64) {
	name := fileName{broker: broker, epoch: epoch}
	b := make([]byte, headerLength+100)
	name.putHeader(b, time.Now())
	binary.BigEndian.PutUint16(b[8:], formatVersion+1)
	binary.BigEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name.path()), b, 0o644))
}

// Fail makes the writer's files fail as script says: it is asked before each write ("write", with the length), each
// fsync ("sync") and each fsync of a directory ("syncdir"), and returns how many bytes are written nevertheless, and the
// error. The writer begins a new file.
func Fail(l *Log, script func(op string, length int) (written int, err error)) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	l.writer.leave()
	create := l.writer.create
	l.writer.create = func(path string) (appendFile, error) {
		file, err := create(path)
		if err != nil {
			return nil, err
		}
		return &failingFile{appendFile: file, script: script}, nil
	}
	l.writer.syncDir = func(root *os.Root, path string) error {
		if _, err := script("syncdir", 0); err != nil {
			return err
		}
		return syncDir(root, path)
	}
}

type failingFile struct {
	appendFile
	script func(op string, length int) (written int, err error)
}

func (f *failingFile) WriteAt(b []byte, offset int64) (int, error) {
	n, err := f.script("write", len(b))
	if err != nil {
		b = b[:n]
	}
	if n, failed := f.appendFile.WriteAt(b, offset); failed != nil {
		return n, failed
	}
	return len(b), err
}

func (f *failingFile) Sync() error {
	if _, err := f.script("sync", 0); err != nil {
		return err
	}
	return f.appendFile.Sync()
}

// StopInsideWrites makes the next write stop half way, print "torn" and never return.
func StopInsideWrites(l *Log) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	l.writer.file = stoppingFile{l.writer.file}
}

type stoppingFile struct{ appendFile }

func (f stoppingFile) WriteAt(b []byte, offset int64) (int, error) {
	if _, err := f.appendFile.WriteAt(b[:len(b)/2], offset); err != nil {
		return 0, err
	}
	fmt.Println("torn")
	time.Sleep(time.Hour) // to be killed in
	return 0, nil
}

// Poll returns one pass of a watcher that knows the directory already and trusts its time.
func Poll(t testing.TB, dir string) func() {
	cfg, err := Config{Dir: dir}.withDefaults()
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	w := newWatcher(cfg, root)
	t.Cleanup(func() { w.release(); require.NoError(t, root.Close()) })
	w.pass(time.Now(), true)
	later := time.Now().Add(time.Hour)
	w.pass(later, false)
	return func() { w.pass(later, false) }
}

// Leave makes the writer begin a new file.
func Leave(l *Log) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	l.writer.leave()
}

// HalfPass is what a watcher has done in the middle of a pass: it has listed what there is and measured the broker's
// newest file, and nothing else yet. Finish ends the pass.
type HalfPass struct{ Finish func() }

// SubscribeByHand returns a subscription from the beginning on whose watcher moves only when it is told to.
func SubscribeByHand(t testing.TB, l *Log) (sub metadata.Subscription, pass func(), half func(broker int32) HalfPass) {
	w := newWatcher(l.cfg, l.root)
	s := newSubscription(l)
	s.watcher, s.begun = w, true
	l.mu.Lock()
	l.watcher = w
	l.subscriptions[s] = struct{}{}
	l.mu.Unlock()
	t.Cleanup(func() { require.NoError(t, s.Close()); w.release() })
	pass = func() { w.pass(time.Now(), true) }
	half = func(broker int32) HalfPass {
		changed := w.listBrokers(time.Now(), true)
		for _, b := range w.brokers {
			b.listed = w.listFiles(b, time.Now(), true)
			changed = changed || b.listed
			if b.id == broker {
				changed = w.measureFile(b.files[len(b.files)-1], true) || changed
			}
		}
		return HalfPass{Finish: func() {
			for _, b := range w.brokers {
				changed = w.measure(b, true) || changed
			}
			if changed {
				w.show()
			}
		}}
	}
	return s, pass, half
}

// ForgetHandles makes the subscription open its files again.
func ForgetHandles(sub metadata.Subscription) {
	s := sub.(*subscription)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.readers {
		for _, c := range r.cursors {
			c.release()
		}
	}
}

// WriteEmptyFile leaves behind what a writer does that is killed before its first write.
func WriteEmptyFile(t testing.TB, dir string, broker int32, epoch int64) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName{broker: broker, epoch: epoch}.path()), nil, 0o644))
}

// GrowFutureFile adds to the file of WriteFutureFile.
func GrowFutureFile(t testing.TB, dir string, broker int32, epoch int64) {
	file, err := os.OpenFile(filepath.Join(dir, fileName{broker: broker, epoch: epoch}.path()), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = file.Write(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// SpoilHandles closes, behind the watcher's back, the files that the watcher of a subscription has open.
func SpoilHandles(t testing.TB, sub metadata.Subscription) {
	for _, b := range sub.(*subscription).watcher.brokers {
		for _, f := range b.files {
			if f.handle != nil {
				require.NoError(t, f.handle.Close())
			}
		}
	}
}
