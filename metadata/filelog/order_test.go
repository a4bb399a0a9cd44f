package filelog_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata/filelog"
)

// M3: the events of one broker come in their order, also for a subscription that looks in the middle of a pass of the
// watcher: it has measured the newest file already, and the one before it not since an event was added there.
func TestOrderInTheMiddleOfAPass(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub, pass, half := filelog.SubscribeByHand(t, log)
		publish(t, log, events(1, 1, 0)...)
		pass()
		publish(t, log, events(1, 1, 1)...)
		filelog.Leave(log)
		publish(t, log, events(1, 1, 2)...)

		halfPass := half(1)
		assert.Equal(t, "1.1:0", read(t, sub))
		halfPass.Finish()
		assert.Equal(t, "1.1:1 1.1:2", read(t, sub))
	})
}

// A broker's directory that has lost a file, is removed and made anew costs a subscription nothing that is in it then.
func TestDirectoryMadeAnew(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateBytes: 1})
		reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1})
		sub := subscribe(t, reader)
		publish(t, log, events(1, 1, 0)...)
		publish(t, log, events(1, 1, 1)...)
		assert.Equal(t, "1.1:0 1.1:1", read(t, sub))
		require.NoError(t, os.Remove(filepath.Join(dir, files(t, dir)[0])))
		assert.Empty(t, read(t, sub))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "1")))
		assert.Empty(t, read(t, sub))
		publish(t, log, events(1, 1, 2)...)
		assert.Equal(t, "1.1:2", read(t, sub))
	})
}

// A position in time passes over what was there, and nothing that is published after Subscribe has returned: the clock of
// a broker that was known may be behind the reader's, and that of a new one too.
func TestPositionInTimeAndClocksThatAreBehind(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		behind := func() time.Time { return time.Now().Add(-time.Minute) }
		reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1})
		known := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Now: behind})
		publish(t, known, events(1, 1, 0)...)
		sub := subscribeFrom(t, reader, time.Now())
		publish(t, known, events(1, 1, 1)...)
		filelog.Leave(known)
		publish(t, known, events(1, 1, 2)...)
		fresh := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1, Now: behind})
		publish(t, fresh, events(2, 1, 0)...)
		assert.Equal(t, "1.1:1 1.1:2 2.1:0", read(t, sub))
	})
}
