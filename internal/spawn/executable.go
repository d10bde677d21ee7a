package spawn

import (
	"os"
	"syscall"
)

// WriteExecutable writes a file that may be run at once. A process that is started elsewhere while the file is being
// written inherits the descriptor for a moment, and until it has become another program Linux refuses to run the file:
// "text file busy", https://github.com/golang/go/issues/22315. So none is started meanwhile.
func WriteExecutable(file string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, content, 0o755)
}
