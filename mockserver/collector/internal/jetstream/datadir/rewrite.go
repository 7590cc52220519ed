package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// After a failed write, the kernel marks the pages as clean although the disk may contain zeros at
// that position. Reading then returns the cached data. The next record could share a page with such
// data, and be synced and acknowledged. After a power cut, the record would be lost, because nothing
// after an unreadable record is read. Data that was written during a clean stop but never synced has
// the same problem. For this reason:
//
//   - After a failed write, and at a start after an unclean stop, RewriteUnsynced copies all
//     data that may not be on the disk to new files before calls are accepted.
//   - A stop counts as clean only if ConfirmSynced could sync the last writes.
//
// Only the last block of each stream may be unsynced, because the server syncs a block before it
// starts the next one. If the server syncs at intervals, this also applies to all blocks written since
// the last sync.

// RewriteUnsynced rewrites data that can be read but may not be on the disk. It removes incomplete
// writes at the end of a stream, which were never acknowledged.
func (f *Files) RewriteUnsynced() error {
	for _, stream := range f.StreamDirs() {
		if err := f.rewriteStream(stream); err != nil {
			return fmt.Errorf("journal: rewriting the end of %s: %w", filepath.Base(stream), err)
		}
	}
	return nil
}

// RoomNeeded returns the disk space needed to restart the store. Files are rewritten one at a time,
// and the server also needs some space.
func (f *Files) RoomNeeded() int64 {
	needed := int64(minBallast)
	for _, stream := range f.StreamDirs() {
		blocks, _ := f.unsynced(stream)
		for _, block := range blocks {
			if info, err := os.Stat(blockFile(stream, block)); err == nil {
				needed = max(needed, minBallast+info.Size())
			}
		}
	}
	return needed
}

func (f *Files) rewriteStream(stream string) error {
	if err := RemoveTemporary(stream, filepath.Join(stream, "msgs")); err != nil {
		return err
	}
	blocks, err := f.unsynced(stream)
	if err != nil {
		return err
	}
	var found []Damage
	r := newBlockReader()
	for i, block := range blocks {
		more, _, _, err := checkFile(stream, block, i == len(blocks)-1, r)
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	if lost := acknowledged(found); slices.ContainsFunc(lost, func(d Damage) bool { return !f.IsVolatile(d.Stream) }) {
		return f.refuse(lost)
	}
	if err := f.cut(stream, found); err != nil {
		return err
	}
	// The server wrote its index when it stopped. The index may contain messages that were not
	// stored, and may lack blocks that were unreadable at that time.
	if err := removeIndex(stream); err != nil {
		return err
	}
	for _, block := range blocks {
		if err := rewriteFile(blockFile(stream, block)); err != nil {
			return err
		}
	}
	for _, name := range []string{metaFile, metaSum} {
		if err := rewriteFile(filepath.Join(stream, name)); err != nil {
			return err
		}
	}
	return nil
}

// unsynced returns the blocks of a stream that can be read but may not be on the disk, in order.
func (f *Files) unsynced(stream string) ([]int, error) {
	blocks, err := BlocksOf(stream)
	if err != nil || len(blocks) == 0 {
		return nil, err
	}
	first := len(blocks) - 1
	if f.Interval > 0 {
		newest, err := os.Stat(blockFile(stream, blocks[first]))
		if err != nil {
			return nil, err
		}
		since := newest.ModTime().Add(-2*f.Interval - time.Second)
		for first > 0 {
			info, err := os.Stat(blockFile(stream, blocks[first-1]))
			if err != nil {
				return nil, err
			}
			if info.ModTime().Before(since) {
				break
			}
			first--
		}
	}
	return blocks[first:], nil
}

// ConfirmSynced syncs the last writes. It returns an error if they may not be on the disk. The server
// must have stopped.
func (f *Files) ConfirmSynced() error {
	for _, stream := range f.StreamDirs() {
		blocks, err := f.unsynced(stream)
		if err != nil {
			return err
		}
		for _, block := range blocks {
			if err := SyncFile(blockFile(stream, block)); err != nil {
				return err
			}
		}
		for _, file := range glob(stream, "msgs/*.db") {
			if err := SyncFile(file); err != nil {
				return err
			}
		}
		if err := syncDir(filepath.Join(stream, "msgs")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
