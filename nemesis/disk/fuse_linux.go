package disk

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// drive is the file through which the kernel uses a Device. After a power cut the device gets a
// new drive. The old drive rejects all operations, including writes that are still in the kernel's
// cache.
type drive struct {
	fs.Inode
	device *Device
	mu     sync.RWMutex // locked for reading during an operation
	dead   bool
}

// unplug waits for operations in progress and makes all later operations fail.
func (d *drive) unplug() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

var (
	_ fs.NodeOpener    = (*drive)(nil)
	_ fs.NodeGetattrer = (*drive)(nil)
	_ fs.NodeReader    = (*drive)(nil)
	_ fs.NodeWriter    = (*drive)(nil)
	_ fs.NodeFsyncer   = (*drive)(nil)
)

// Open opens the file without the kernel's cache.
func (*drive) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (d *drive) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(d.device.size)
	return 0
}

func (d *drive) Read(_ context.Context, _ fs.FileHandle, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.dead {
		return nil, syscall.EIO
	}
	n, err := d.device.ReadAt(b, at)
	if err != nil {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(b[:n]), 0
}

func (d *drive) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.dead {
		return 0, syscall.EIO
	}
	n, err := d.device.WriteAt(b, at)
	if err != nil {
		return 0, syscall.EIO
	}
	return uint32(n), 0
}

func (d *drive) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.dead || d.device.Sync() != nil {
		return syscall.EIO
	}
	return 0
}

// drives is a mounted directory that contains drives.
type drives struct {
	fs.Inode
	server *fuse.Server
	dir    string
}

func mountDrives(dir string) (*drives, error) {
	d := &drives{dir: dir}
	server, err := fs.Mount(dir, d, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "nemesis", Name: "nemesis", DisableXAttrs: true, MaxWrite: 1 << 20,
	}})
	if err != nil {
		return nil, fmt.Errorf("disk: mounting a FUSE file system: %w", err)
	}
	d.server = server
	return d, nil
}

// add adds a drive for a device. It returns the drive and its path.
func (d *drives) add(device *Device, name string) (*drive, string) {
	dr := &drive{device: device}
	d.AddChild(name, d.NewPersistentInode(context.Background(), dr, fs.StableAttr{Mode: fuse.S_IFREG}), true)
	return dr, d.dir + "/" + name
}
