package spool

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	lockfileFailImmediately = 1
	lockfileExclusiveLock   = 2

	errorLockViolation = syscall.Errno(33)

	// lockAt is the offset of the locked byte. It is far after the text, so that other
	// processes can read the text.
	lockAt = 1 << 30
)

var errLocked = errors.New("the file is locked")

// lockFile locks f. It returns errLocked if another process holds the lock. Closing f releases it.
func lockFile(f *os.File) error {
	at := syscall.Overlapped{Offset: lockAt}
	ok, _, err := lockFileEx.Call(f.Fd(), lockfileExclusiveLock|lockfileFailImmediately, 0, 1, 0,
		uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errorLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return errLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}
