package filelog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata/filelog"
)

// M3: a file that the operating system will not let be read is a gap, once, and no silence: the next epoch of its broker
// begins at 0 and tells nothing of it. What is in it comes when it can be read.
func TestFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1, Hooks: damage.hooks()})
		sub := subscribe(t, reader)
		older := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		publish(t, older, events(1, 1, 0)...)
		name := filepath.Join(dir, files(t, dir)[0])
		assert.Equal(t, "1.1:0", read(t, sub))

		// The watcher has the file open. A link that leaves the directory is what nobody can open here, root included.
		publish(t, older, events(1, 1, 1)...)
		time.Sleep(time.Second)
		filelog.ForgetHandles(sub)
		require.NoError(t, os.Rename(name, name+".away"))
		require.NoError(t, os.Symlink("../../elsewhere", name))
		newer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 2})
		publish(t, newer, events(1, 2, 0)...)
		assert.Equal(t, "gap1.1[-1,-1)corrupt 1.2:0", read(t, sub))
		assert.Empty(t, read(t, sub), "told again")

		require.NoError(t, os.Rename(name+".away", name))
		assert.Equal(t, "1.1:1", read(t, sub))
	})
}

// M3: a file that is shorter than it was, as a file server may leave it behind that has lost what it had promised, still
// yields the events that are whole, and then a gap.
func TestFileThatHasBecomeShorter(t *testing.T) {
	const name = "1/0000000000000000001-0000000000.events"
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Hooks: damage.hooks()})
		sub, pass, _ := filelog.SubscribeByHand(t, log)
		publish(t, log, events(1, 1, 0, 1, 2)...)
		pass()
		at := frames(t, dir, name)
		require.NoError(t, os.Truncate(filepath.Join(dir, name), int64(at[2]+30)))
		assert.Equal(t, "1.1:0 1.1:1 gap1.1[-1,-1)corrupt", read(t, sub))
		assert.Empty(t, read(t, sub), "told again")
		assert.Equal(t, []string{fmt.Sprintf("torn %s %d", name, at[2])}, damage.all())
	})
}

// M3, M4: what is added to a file of a version to come is missed each time, not once.
func TestUnknownFileThatGrows(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		filelog.WriteFutureFile(t, dir, 1, 2)
		assert.Equal(t, "gap1.2[-1,-1)unknown-version", read(t, sub))
		filelog.GrowFutureFile(t, dir, 1, 2)
		assert.Equal(t, "gap1.2[-1,-1)unknown-version", read(t, sub))
	})
}

// M3: a file that nobody could ever open is a gap too.
func TestFileThatNeverCouldBeRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Hooks: damage.hooks()})
		sub, pass, half := filelog.SubscribeByHand(t, log)
		publish(t, log, events(1, 1, 0)...)
		name := filepath.Join(dir, files(t, dir)[0])
		finish := half(9).Finish // it is listed, and not open yet
		require.NoError(t, os.Rename(name, name+".away"))
		require.NoError(t, os.Symlink("../../elsewhere", name))
		finish()
		pass()
		assert.Equal(t, "gap1.1[-1,-1)corrupt", read(t, sub))
		assert.Contains(t, damage.all(), "unreadable 1/0000000000000000001-0000000000.events -1")
		require.NoError(t, os.Rename(name+".away", name))
		pass()
		assert.Equal(t, "1.1:0", read(t, sub))
	})
}

// A file server that has restarted makes the handles of files stale. They are opened again, so a second restart is
// another change of state.
func TestStaleHandles(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Hooks: damage.hooks()})
		sub, pass, _ := filelog.SubscribeByHand(t, log)
		publish(t, log, events(1, 1, 0)...)
		pass()
		assert.Equal(t, "1.1:0", read(t, sub))
		filelog.SpoilHandles(t, sub)
		publish(t, log, events(1, 1, 1)...)
		pass()
		publish(t, log, events(1, 1, 2)...)
		pass()
		assert.Equal(t, "1.1:1 1.1:2", read(t, sub))
		filelog.SpoilHandles(t, sub)
		pass()
		assert.Len(t, damage.all(), 2)
	})
}
