package s3_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// W10, A2: a place of which it is known that the store names none of its segments in a list is refused before any request,
// with the field and the folder. Nothing else would tell: segments there are stored and read, and never swept.
func TestPlacesThatAreInNoList(t *testing.T) {
	for _, test := range []struct {
		name, provider, prefix, cluster string
		wrong                           string // "" if the place is good
	}{
		{"SeaweedFS's uploads", "seaweedfs", ".uploads", "c", `Store.Prefix: ".uploads"`},
		{"its uploads further down", "seaweedfs", "a/.uploads/b", "c", `Store.Prefix: ".uploads"`},
		{"its uploads as a cluster", "seaweedfs", "a", ".uploads", `Store.Cluster: ".uploads"`},
		{"its versions", "seaweedfs", "a/b.versions", "c", `Store.Prefix: "b.versions"`},
		{"its versions as a cluster", "seaweedfs", "", "prod.versions", `Store.Cluster: "prod.versions"`},
		{"its versions without more", "seaweedfs", "", ".versions", `Store.Cluster: ".versions"`},
		{"names that only look like those", "seaweedfs", "x.uploads/.uploads2/.versions.x", "versions", ""},
		{"versitygw's temporaries", "versitygw", ".sgwtmp/", "c", `Store.Prefix: ".sgwtmp"`},
		{"its temporaries as a cluster", "versitygw", "", ".sgwtmp", `Store.Cluster: ".sgwtmp"`},
		{"one store's names on another", "versitygw", ".uploads", "x.versions", ""},
		{"all of them on a store that nobody knows", "", ".uploads/.sgwtmp", "x.versions", ""},
		{"a driver that is told of no place", "seaweedfs", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := config("http://fake.invalid")
			c.Provider, c.Store = test.provider, objectstore.Config{Prefix: test.prefix, Cluster: test.cluster}
			driver, err := s3.NewDriver(t.Context(), c)
			if test.wrong == "" {
				require.NoError(t, err)
				require.NoError(t, driver.Close())
				return
			}
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			require.ErrorContains(t, err, "s3.Config: "+test.wrong)
		})
	}
}
