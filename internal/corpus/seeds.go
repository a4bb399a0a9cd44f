package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// Variable is the environment variable that has [Check] write the files instead of comparing them, if it is set to
// anything. Files of seeds that are no more are removed then; regressions stay.
const Variable = "WALHOP_UPDATE_CORPUS"

// Seed is one input of a fuzz target.
type Seed struct {
	// Name says what is special about the input, in a-z, 0-9 and "-". It is the name of the file.
	Name string
	// Args are the arguments of the target after *testing.T: []byte, string, bool, int32, int64, uint16 or uint64.
	Args []any
}

// seedName is what a seed may be called. found is what the go command calls an input with which it has made a target
// fail: such files are regressions, and no code says what they are.
var (
	seedName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	found    = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// Check compares the files in testdata/fuzz/target below the working directory, which for a test is that of its
// package, with the seeds, or writes them; see [Variable]. Inputs that the go command has found are left alone.
func Check(t testing.TB, target string, seeds ...Seed) {
	t.Helper()
	if err := settle(filepath.Join("testdata", "fuzz", target), seeds, os.Getenv(Variable) != ""); err != nil {
		t.Errorf("%v; with %s=1 the files are written anew", err, Variable)
	}
}

// settle compares the files of a folder with the seeds, or writes them.
func settle(dir string, seeds []Seed, update bool) error {
	names := make([]string, 0, len(seeds))
	for _, seed := range seeds {
		if !seedName.MatchString(seed.Name) || found.MatchString(seed.Name) || slices.Contains(names, seed.Name) {
			return fmt.Errorf("corpus: a seed of %s may not be called %q", dir, seed.Name)
		}
		names = append(names, seed.Name)
	}
	if update {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	present, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range present {
		if found.MatchString(entry.Name()) || slices.Contains(names, entry.Name()) {
			continue
		}
		if !update {
			return fmt.Errorf("corpus: no seed is called %s", filepath.Join(dir, entry.Name()))
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	for _, seed := range seeds {
		want, err := encode(seed.Args)
		if err != nil {
			return fmt.Errorf("corpus: seed %s of %s: %w", seed.Name, dir, err)
		}
		path := filepath.Join(dir, seed.Name)
		if update {
			err = os.WriteFile(path, want, 0o644)
		} else if got, failed := os.ReadFile(path); failed != nil {
			err = fmt.Errorf("corpus: %w", failed)
		} else if !bytes.Equal(got, want) {
			err = fmt.Errorf("corpus: %s is not what its seed says", path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encode returns the arguments in the form that the go command reads.
func encode(args []any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("go test fuzz v1\n")
	for _, arg := range args {
		switch arg := arg.(type) {
		case []byte:
			fmt.Fprintf(&b, "[]byte(%s)\n", strconv.Quote(string(arg)))
		case string:
			fmt.Fprintf(&b, "string(%s)\n", strconv.Quote(arg))
		case bool, int32, int64, uint16, uint64:
			fmt.Fprintf(&b, "%T(%v)\n", arg, arg)
		default:
			return nil, fmt.Errorf("no argument may be a %T", arg)
		}
	}
	return b.Bytes(), nil
}
