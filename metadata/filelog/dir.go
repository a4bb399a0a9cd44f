package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// readNames lists a directory, in no particular order.
func readNames(root *os.Root, path string) ([]string, error) {
	dir, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// makeBrokerDir creates the broker's directory and makes it durable. One that is there is no error.
func makeBrokerDir(root *os.Root, broker int32) error {
	err := root.Mkdir(brokerDir(broker), 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(root, ".") // also if it is there: who made it may have crashed before this
}

// syncDir makes the entries of a directory durable. Windows has no such call and needs none.
func syncDir(root *os.Root, path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := root.Open(path)
	if err != nil {
		return fmt.Errorf("filelog: opening directory %s: %w", path, err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("filelog: fsync of directory %s: %w", path, err)
	}
	return nil
}

// checkDir finds out on start whether the broker can write where it must.
func checkDir(root *os.Root, broker int32) error {
	if err := makeBrokerDir(root, broker); err != nil {
		return err
	}
	if info, err := root.Lstat(brokerDir(broker)); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is in the place of the broker's directory", brokerDir(broker))
	}
	probe := brokerDir(broker) + "/" + probeName
	file, err := root.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		err = file.Close()
	} else if errors.Is(err, fs.ErrExist) { // of a process that was killed here, or that is here now
		err = nil
	}
	if err != nil {
		return err
	}
	if err := root.Remove(probe); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// probeName is the name of the empty file that checkDir creates and removes. Readers pass over it.
const probeName = ".writable"
