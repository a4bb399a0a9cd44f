package filelog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata/filelog"
)

// M6: an empty file, which a writer leaves behind that was killed before its first write, does not keep the later files of
// a broker that has gone.
func TestRetentionBehindAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Retention: time.Hour})
		gone := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 2, Retention: time.Hour, RotateBytes: 1})
		filelog.WriteEmptyFile(t, dir, 2, 1)
		publish(t, gone, events(2, 2, 0)...)
		publish(t, gone, events(2, 2, 1)...)
		require.NoError(t, gone.Close())
		require.Len(t, files(t, dir), 3)
		time.Sleep(2*time.Hour + time.Minute)
		publish(t, log, events(1, 1, 0)...)
		_, err := log.Publish(t.Context()) // comes after the removal
		require.NoError(t, err)
		assert.Equal(t, []string{"1/0000000000000000001-0000000000.events"}, files(t, dir))
	})
}
