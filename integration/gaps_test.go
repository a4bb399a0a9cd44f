package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// gaps.txt is read as it is documented there, and what cannot be meant is refused.
func TestGapsFormat(t *testing.T) {
	gaps, err := parseGaps("# a comment\n\n Run/C9 azurite  drops  nothing \nprobe/x versitygw y\nRun/C9 versitygw z\n")
	require.NoError(t, err)
	require.Equal(t, []Gap{{"Run", "C9", Azurite, "drops nothing"}, {"probe", "x", VersityGW, "y"}, {"Run", "C9", VersityGW, "z"}}, gaps)
	for name, text := range map[string]string{
		"no reason":      "Run/C9 azurite",
		"no group":       "C9 azurite reason",
		"unknown server": "Run/C9 azure reason",
		"twice":          "Run/C9 azurite one\nRun/C9 azurite two",
	} {
		_, err := parseGaps(text)
		require.Error(t, err, name)
	}
}
