package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options configures a disk.
type Options struct {
	Dir  string // an empty or missing directory for the files of the disk
	Size int64  // size in bytes; defaults to 512 MB, which is about the minimum of xfs
	FS   string // ext4 or xfs; defaults to ext4
	Seed uint64 // determines which data survives power cuts and torn writes
}

// Disk is a mounted file system on a Device. Its methods make the disk fail. They are not safe for
// concurrent use.
type Disk struct {
	*Device
	fs     string
	dir    string
	medium *os.File
	drives *drives
	drive  *drive // nil if the file system is not mounted
	mounts int    // number of mounts so far
	log    []Range
	data   []Range
	guard  *guard
}

// Supported returns nil if this machine can create disks, and otherwise the reason.
func Supported() error {
	if os.Geteuid() != 0 {
		return errors.New("faulty disks require root")
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("faulty disks require %w", err)
		}
	}
	for _, program := range []string{"mkfs.ext4", "dumpe2fs", "debugfs", "filefrag", "mkfs.xfs", "xfs_db", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("faulty disks require %w", err)
		}
	}
	return nil
}

// New creates and mounts a disk. The caller must call Close.
func New(o Options) (_ *Disk, err error) {
	if o.Size == 0 {
		o.Size = 512 << 20
	}
	if o.FS == "" {
		o.FS = "ext4"
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	d := &Disk{fs: o.FS, dir: dir}
	defer func() {
		if err != nil {
			_ = d.Close()
		}
	}()
	for _, sub := range []string{d.Path(), d.behind()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
	}
	if d.guard, err = newGuard(d.Path(), d.behind()); err != nil {
		return nil, err
	}
	if err := d.format(o); err != nil {
		return nil, err
	}
	if d.drives, err = mountDrives(d.behind()); err != nil {
		return nil, err
	}
	return d, d.mount()
}

// Path returns the mount point.
func (d *Disk) Path() string { return filepath.Join(d.dir, "mnt") }

func (d *Disk) behind() string { return filepath.Join(d.dir, "fuse") }

// format creates the medium and formats it with a file system.
func (d *Disk) format(o Options) (err error) {
	d.medium, err = os.Create(filepath.Join(d.dir, "medium"))
	if err != nil {
		return err
	}
	if err := d.medium.Truncate(o.Size); err != nil {
		return err
	}
	mkfs := []string{"mkfs.ext4", "-q", "-F", "-O", "^resize_inode", "-E", "packed_meta_blocks=1,lazy_itable_init=0,lazy_journal_init=0,nodiscard"}
	if o.FS == "xfs" {
		mkfs = []string{"mkfs.xfs", "-q", "-f", "-K"}
	}
	if err := run(append(mkfs, d.medium.Name())...); err != nil {
		return err
	}
	d.log, d.data, err = layout(o.FS, d.medium.Name(), o.Size)
	d.Device = NewDevice(d.medium, o.Size, o.Seed)
	return err
}

// Log returns the ranges of the file system's journal, which xfs calls the log.
func (d *Disk) Log() []Range { return d.log }

// Data returns the ranges that contain file contents. Faults in these ranges damage the file system
// itself only in directories and, on xfs, in some of its trees.
func (d *Disk) Data() []Range { return d.data }

// mount mounts the medium through a new drive.
func (d *Disk) mount() error {
	d.mounts++
	drive, path := d.drives.add(d.Device, fmt.Sprint("disk", d.mounts))
	loop, err := attach(path)
	if err != nil {
		return err
	}
	defer func() { _ = loop.Close() }() // the mount keeps the loop device in use
	options := ""
	if d.fs == "xfs" {
		options = "nouuid" // the file system may still be mounted from before a power cut
	}
	if err := unix.Mount(loop.Name(), d.Path(), d.fs, unix.MS_NOATIME, options); err != nil {
		return fmt.Errorf("disk: mounting %s: %w", d.fs, err)
	}
	d.drive = drive
	return nil
}

// Unplug makes all operations fail with EIO permanently. It is the first half of a power cut. Kill
// the programs that use the disk between Unplug and PowerCut. Otherwise they could continue with
// the new state of the disk.
func (d *Disk) Unplug() { d.drive.unplug() }

// PowerCut drops the unflushed writes of the device and the unwritten data of the kernel. It then
// mounts the file system again.
func (d *Disk) PowerCut(loss Loss) error {
	if d.drive != nil {
		d.Unplug()
		d.drive = nil
		if err := unix.Unmount(d.Path(), unix.MNT_DETACH); err != nil {
			return fmt.Errorf("disk: unmounting: %w", err)
		}
	}
	if err := d.Cut(loss); err != nil {
		return err
	}
	return d.mount()
}

// Remount unmounts the file system cleanly and mounts it again. After that, the caches are empty and
// the file system is writable. No program may have open files on the disk.
func (d *Disk) Remount() error {
	if err := unix.Unmount(d.Path(), 0); err != nil {
		return fmt.Errorf("disk: unmounting: %w", err)
	}
	d.drive = nil
	return d.mount()
}

// DropCache removes clean pages from the kernel's page cache. Dirty pages remain.
func (d *Disk) DropCache() error {
	return filepath.WalkDir(d.Path(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file was removed after ReadDir
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}

// filler returns the path of the file that Fill creates.
func (d *Disk) filler() string { return filepath.Join(d.Path(), "filler") }

// Fill uses the free space of the file system except for the given number of bytes, until Empty is
// called. It does not use space that other programs free meanwhile.
func (d *Disk) Fill(but int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(d.Path(), &s); err != nil {
		return err
	}
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	step := int64(s.Bfree)*s.Bsize - but // Bfree includes the reserved blocks, which root can use
	at := info.Size()
	for ; step >= s.Bsize; step /= 2 {
		err := unix.Fallocate(int(f.Fd()), 0, at, step)
		switch {
		case errors.Is(err, unix.ENOSPC) && but > 0:
			return nil // the file system itself has used some space
		case err == nil:
			at += step
		case !errors.Is(err, unix.ENOSPC):
			return err
		}
	}
	return nil
}

// Empty frees the space that Fill has used.
func (d *Disk) Empty() error { return os.Remove(d.filler()) }

// ReadOnly makes the file system reject writes with EROFS, like ext4 after an internal error. On xfs,
// reads and writes fail with EIO. Remount or PowerCut restore the file system.
func (d *Disk) ReadOnly() error {
	if d.fs == "ext4" {
		return unix.Mount("", d.Path(), "", unix.MS_REMOUNT|unix.MS_NOATIME, "abort")
	}
	f, err := os.Open(d.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	const goingDown, flushLog = 0x8004587d, 1 // XFS_IOC_GOINGDOWN
	return unix.IoctlSetPointerInt(int(f.Fd()), goingDown, flushLog)
}

// Close unmounts and removes the disk. Programs with open files on the disk get EIO.
func (d *Disk) Close() error {
	var errs []error
	if d.drive != nil {
		d.drive.unplug()
		errs = append(errs, unix.Unmount(d.Path(), unix.MNT_DETACH))
	}
	if d.drives != nil {
		errs = append(errs, unix.Unmount(d.behind(), unix.MNT_DETACH))
	}
	if d.guard != nil {
		errs = append(errs, d.guard.dismiss())
	}
	if d.medium != nil {
		errs = append(errs, d.medium.Close(), os.Remove(d.medium.Name()))
	}
	for _, sub := range []string{d.Path(), d.behind()} {
		if err := os.Remove(sub); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	d.drive, d.drives, d.guard, d.medium = nil, nil, nil, nil
	return errors.Join(errs...)
}

// attach attaches a file to a new loop device. The system removes the device after its last use.
func attach(path string) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	// Do not use os.OpenFile, because package os would poll the file, which this process serves.
	file, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("disk: %s: %w", path, err)
	}
	defer func() { _ = unix.Close(file) }()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("disk: no loop device is free: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprint("/dev/loop", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file)}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return loop, nil
		}
		_ = loop.Close()
		if !errors.Is(err, unix.EBUSY) { // EBUSY means that another process was faster
			return nil, fmt.Errorf("disk: creating a loop device: %w", err)
		}
	}
}

// guard is a process that removes a disk when this process ends. It does not wait for the end itself,
// because a killed process does not end while one of its threads waits for the disk, which nobody
// serves any more. It waits for the end of the heartbeats instead.
type guard struct {
	cmd         *exec.Cmd
	stdin       io.WriteCloser
	done, ended chan struct{} // for the goroutine that sends heartbeats
}

// newGuard starts a guard for a disk that is mounted at mnt and served below fuse.
func newGuard(mnt, fuse string) (*guard, error) {
	const script = `trap "" INT TERM HUP
while timeout 30 sh -c "read -r line"; do :; done
umount -c -f "$2" 2>/dev/null # requests of the loop device fail
umount -c -l "$1" "$2" 2>/dev/null`
	cmd := exec.Command("sh", "-c", script, "guard", mnt, fuse)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	g := &guard{cmd, stdin, make(chan struct{}), make(chan struct{})}
	go g.beat()
	return g, nil
}

// beat sends heartbeats until the guard is dismissed.
func (g *guard) beat() {
	defer close(g.ended)
	ticker := time.NewTicker(3 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = g.stdin.Write([]byte("\n"))
		case <-g.done:
			return
		}
	}
}

// dismiss stops the guard.
func (g *guard) dismiss() error {
	close(g.done)
	<-g.ended
	_ = g.stdin.Close()
	var exit *exec.ExitError
	if err := g.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func run(command ...string) error {
	_, err := output(command...)
	return err
}

func output(command ...string) (string, error) {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("disk: %s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return string(out), nil
}
