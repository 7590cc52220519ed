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

// After a write has failed, the system takes the pages that it could not write for
// written: a read shows them, and the disk may have zeros there. The next record
// would share a page with them, be synced and acknowledged, and be lost with the
// power, since nothing behind a record that cannot be read is read. The same holds
// for what is written at an orderly stop and never synced. So:
//
//   - After a failed write, and at a start after a process that did not end in good
//     order, where nobody knows whether one had failed, all that is not proved to be
//     on the disk is written anew, to other files, before calls are taken
//     (RewriteUnproved).
//   - An orderly stop counts as one only if what was written last could be synced
//     (prove).
//
// What is not proved is the last block of each stream: every other one was synced
// before the next was begun. Where the server syncs at intervals, it is also what
// was written since.

// RewriteUnproved writes anew what may not be on the disk as it is read. What cannot
// be read at the end of a stream, and was never acknowledged, is cut off.
func (f *Files) RewriteUnproved() error {
	streams, err := f.StreamDirs()
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if err := f.rewriteStream(stream); err != nil {
			return fmt.Errorf("journal: writing the end of %s anew: %w", filepath.Base(stream), err)
		}
	}
	return nil
}

// RoomNeeded is how much must be free for the store to come up again: files are written
// anew one by one, and the server needs some for itself.
func (f *Files) RoomNeeded() int64 {
	needed := int64(ballastLeast)
	streams, _ := f.StreamDirs()
	for _, stream := range streams {
		blocks, _ := f.unproved(stream)
		for _, block := range blocks {
			if info, err := os.Stat(blockFile(stream, block)); err == nil {
				needed = max(needed, ballastLeast+info.Size())
			}
		}
	}
	return needed
}

func (f *Files) rewriteStream(stream string) error {
	if err := RemoveTemporary(stream, filepath.Join(stream, "msgs")); err != nil {
		return err
	}
	blocks, err := f.unproved(stream)
	if err != nil {
		return err
	}
	var found []Damage
	var buffer []byte
	for i, block := range blocks {
		more, _, _, err := checkFile(stream, block, i == len(blocks)-1, &buffer)
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	if hard := acknowledged(found); slices.ContainsFunc(hard, func(d Damage) bool { return !f.IsVolatile(d.Stream) }) {
		return f.refuse(hard)
	}
	if err := f.cut(stream, found); err != nil {
		return err
	}
	// The server that could not write wrote it when it stopped: with what it failed to
	// store, and without the blocks that it did not find while the disk was away.
	if err := removeIndex(stream); err != nil {
		return err
	}
	for _, block := range blocks {
		if err := rewriteFile(blockFile(stream, block)); err != nil {
			return err
		}
	}
	for _, name := range []string{"meta.inf", "meta.sum"} {
		if err := rewriteFile(filepath.Join(stream, name)); err != nil {
			return err
		}
	}
	return nil
}

// unproved returns the blocks of a stream that may not be on the disk as they are
// read, in their order.
func (f *Files) unproved(stream string) ([]int, error) {
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

// Prove brings what was written last to the disk, and returns an error if that is
// not certain. The server must have stopped.
func (f *Files) Prove() error {
	streams, err := f.StreamDirs()
	if err != nil {
		return err
	}
	for _, stream := range streams {
		blocks, err := f.unproved(stream)
		if err != nil {
			return err
		}
		for _, block := range blocks {
			if err := SyncFile(blockFile(stream, block)); err != nil {
				return err
			}
		}
		others, err := filepath.Glob(filepath.Join(stream, "msgs", "*.db"))
		if err != nil {
			return err
		}
		for _, file := range others {
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
