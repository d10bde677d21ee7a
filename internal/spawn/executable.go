package spawn

import (
	"os"
	"syscall"
)

// WriteExecutable writes a file that can be executed immediately. A process that is started while the file is being
// written briefly inherits the descriptor, and until it has executed another program Linux refuses to run the file:
// "text file busy", https://github.com/golang/go/issues/22315. The lock keeps processes from being started meanwhile.
func WriteExecutable(file string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, content, 0o755)
}
