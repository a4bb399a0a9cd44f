package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// warmer is the optional interface of a driver, and of a manager made of one, that opens connections before they are
// needed.
type warmer interface {
	Warm(ctx context.Context) error
}

// Group P: there are no capabilities to claim or to leave out. What a driver does say of itself is its limits, and by an
// optional interface what else it can do.
var claimCases = []testCase{
	{
		id: "P1", priority: 1, rule: "W9", needs: needDriver,
		title: "a driver takes as many keys in one delete as it says, and its optional abilities work",
		costs: "A sweep fails as a whole, every time, as soon as there is enough to delete, and the store grows for ever.",
		run: func(c *T) {
			driver := c.driver()
			keys := make([]string, driver.Limits().KeysPerDelete)
			if len(keys) == 0 {
				keys = make([]string, 1000) // what 0 stands for
			}
			const most = 10_000 // more than any store known takes at once
			keys = keys[:min(len(keys), most)]
			data := c.bytes(100)
			there := c.newID()
			for i := range keys {
				keys[i] = c.key(c.newID())
			}
			keys[len(keys)-1] = c.key(there)
			require.NoError(c, driver.Put(c.Context(), c.key(there), objectstore.NewBody(data), crc32c(data)))
			require.NoError(c, driver.Delete(c.Context(), keys), "a delete of as many keys as Limits tells, %d, the last of which is there", len(keys))
			_, err := driver.Stat(c.Context(), c.key(there))
			c.wantKind(err, walstorage.ErrSegmentNotFound, fmt.Sprintf("the last of %d keys, deleted", len(keys)))

			m := c.open()
			for name, what := range map[string]any{"the driver": driver, "the manager": m.WalStorageManager} {
				ability, ok := what.(warmer)
				if !ok {
					continue
				}
				require.NoError(c, ability.Warm(c.Context()), "Warm of %s", name)
				require.NoError(c, ability.Warm(c.Context()), "Warm of %s, again", name)
				cancelled, cancel := context.WithCancel(c.Context())
				cancel()
				if err := ability.Warm(cancelled); err != nil && !errors.Is(err, context.Canceled) {
					c.Errorf("Warm of %s with a cancelled context: %v", name, err)
				}
			}
			left, err := rawKeys(c.Context(), driver, c.storage.home.prefix+"/")
			require.NoError(c, err)
			require.Empty(c, left, "objects that Warm has left")
			c.uploadNew(m, data)
		},
	},
	{
		id: "P3", priority: 2, rule: "W9", needs: needDriver,
		title: "the limits of a driver are constants: the same on every handle, before and after its calls",
		run: func(c *T) {
			one, two := c.driver(), c.driver()
			limits := one.Limits()
			require.GreaterOrEqual(c, limits.KeysPerDelete, 0, "Limits().KeysPerDelete")
			require.GreaterOrEqual(c, limits.ObjectBytes, int64(0), "Limits().ObjectBytes")
			key, data := c.key(c.newID()), c.bytes(100)
			for range 3 {
				require.NoError(c, one.Delete(c.Context(), []string{key}))
				require.NoError(c, one.Put(c.Context(), key, objectstore.NewBody(data), crc32c(data)))
				require.NoError(c, one.Get(c.Context(), key, 0, make([]byte, len(data))))
				require.Equal(c, limits, one.Limits(), "the limits after some calls")
				require.Equal(c, limits, two.Limits(), "the limits on another handle")
			}
		},
	},
}
