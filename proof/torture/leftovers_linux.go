package torture

import (
	"os"
	"path/filepath"
	"syscall"
)

// claimDir marks a run's directory as in use for as long as the process lives, however it ends. The file that marks it
// appears already locked: a directory without it may belong to a run that is about to create it.
func claimDir(dir string) (release func() error, err error) {
	mark := filepath.Join(dir, markName)
	file, err := os.OpenFile(mark+".new", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, err
	}
	return file.Close, os.Rename(mark+".new", mark)
}

// clearLeftovers removes what killed runs have left behind, including their file systems in memory. It leaves alone
// directories that are in use or have no mark, and ignores those of other users.
func clearLeftovers(base string) (cleared []string) {
	marks, err := filepath.Glob(filepath.Join(base, dirPrefix+"*", markName))
	if err != nil {
		return nil
	}
	for _, mark := range marks {
		if dir := filepath.Dir(mark); clearLeftover(mark, dir) {
			cleared = append(cleared, dir)
		}
	}
	return cleared
}

func clearLeftover(mark, dir string) bool {
	file, err := os.OpenFile(mark, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	_ = syscall.Unmount(filepath.Join(dir, smallName), syscall.MNT_DETACH) // usually not mounted
	return os.RemoveAll(dir) == nil
}
