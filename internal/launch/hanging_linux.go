package launch

import (
	"os"
	"syscall"
)

func isFirstThread() bool { return syscall.Gettid() == os.Getpid() }
