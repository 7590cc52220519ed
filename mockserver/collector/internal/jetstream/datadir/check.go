package datadir

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// Check checks the files of all streams. It removes the damage that mayLose accepts. For any other
// damage it returns an error that wraps record.ErrDamaged. sizes contains the file sizes from the last
// clean stop.
func (f *Files) Check(m Marker, sizes map[string]int64, clean bool, mayLose func(Damage) bool) error {
	streams := f.StreamDirs()
	if !clean {
		streams = slices.DeleteFunc(streams, func(s string) bool { return filepath.Base(s) == f.Rebuilt })
	}
	found := make([][]Damage, len(streams))
	errs := make([]error, len(streams))
	var checks sync.WaitGroup
	for i, stream := range streams {
		checks.Go(func() { found[i], errs[i] = checkStream(stream, clean) })
	}
	checks.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("journal: checking the stored messages: %w", err)
	}
	refused := slices.DeleteFunc(slices.Concat(f.checkDescriptions(m), f.checkSizes(sizes)), mayLose)
	for i, stream := range streams {
		lost := acknowledged(found[i])
		if slices.ContainsFunc(lost, func(d Damage) bool { return !mayLose(d) }) {
			refused = append(refused, lost...)
			continue
		}
		if err := f.cut(stream, found[i]); err != nil {
			return err
		}
	}
	if len(refused) > 0 {
		return f.refuse(refused)
	}
	if !clean {
		if err := f.emptyRebuilt(); err != nil {
			return fmt.Errorf("journal: emptying RETRY: %w", err)
		}
		if err := f.RewriteUnsynced(); err != nil {
			return err
		}
	}
	if err := f.removeUnchecked(); err != nil {
		return fmt.Errorf("journal: removing indexes without checksums: %w", err)
	}
	return removeClean(f.Path)
}

// removeUnchecked removes the server's indexes of schedules and expiry times, which the server
// rebuilds from the messages. The indexes have no checksum, so a single flipped bit could prevent a
// retry.
func (f *Files) removeUnchecked() error {
	for _, name := range []string{"sched.db", "thw.db"} {
		for _, file := range f.Glob("*/msgs/" + name) {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// emptyRebuilt removes all messages of RETRY, which is rebuilt from OUTCOMES. RETRY is not synced with
// each message, so its files may contradict each other after a power cut.
func (f *Files) emptyRebuilt() error {
	return os.RemoveAll(filepath.Join(f.StreamsDir(), f.Rebuilt, "msgs"))
}

// checkDescriptions finds streams with a description that the server could not read. If loss is
// accepted, it writes the description again.
func (f *Files) checkDescriptions(m Marker) (found []Damage) {
	for _, config := range f.Configs {
		dir := filepath.Join(f.StreamsDir(), config.Name)
		if !m.Ready || !slices.Contains(m.Streams, config.Name) || isDescribed(dir) {
			continue
		}
		d := Damage{Stream: config.Name, file: filepath.Join(dir, metaFile), What: "cannot be read"}
		if _, err := os.Stat(dir); err != nil {
			d.file, d.What = dir, "is missing" // the stream is created again if loss is accepted
		} else if f.AcceptLoss {
			if err := describe(dir, config); err != nil {
				d.What = fmt.Sprintf("cannot be rewritten: %v", err)
			}
		}
		found = append(found, d)
	}
	return found
}

// The server's files that describe a stream.
const (
	metaFile = "meta.inf"
	metaSum  = "meta.sum"
)

// isDescribed reports whether the server can read the description of a stream.
func isDescribed(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, metaFile))
	sum, err2 := os.ReadFile(filepath.Join(dir, metaSum))
	return err == nil && err2 == nil && string(sum) == metaChecksum(dir, text)
}

// describe writes the description of a stream in the server's format.
func describe(dir string, config jetstream.StreamConfig) error {
	var c server.StreamConfig
	text, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil {
		text, err = json.Marshal(server.FileStreamInfo{Created: time.Now().UTC(), StreamConfig: c})
	}
	if err == nil {
		err = writeDurably(filepath.Join(dir, metaFile), text)
	}
	if err != nil {
		return err
	}
	return writeDurably(filepath.Join(dir, metaSum), []byte(metaChecksum(dir, text)))
}

func metaChecksum(dir string, text []byte) string {
	h := newHash(filepath.Base(dir))
	_, _ = h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// cleanFile contains the size of each block. It exists only after a clean stop. In this case, all
// writes are complete, and only the newest blocks are checked.
const cleanFile = "journal.clean"

// WriteClean records a clean stop.
func (f *Files) WriteClean() error {
	sizes := map[string]int64{}
	for _, file := range f.Glob("*/msgs/*.blk") {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		name, _ := filepath.Rel(f.StreamsDir(), file)
		sizes[filepath.ToSlash(name)] = info.Size()
	}
	text, _ := json.Marshal(sizes) // strings and numbers can always be marshaled
	return writeDurably(filepath.Join(f.Path, cleanFile), Seal(text))
}

// ReadClean reports whether the last stop was clean. It also returns the file sizes at that time.
func ReadClean(dir string) (sizes map[string]int64, clean bool) {
	data, err := os.ReadFile(filepath.Join(dir, cleanFile))
	if err != nil {
		return nil, false
	}
	text, err := Unseal(data)
	return sizes, err == nil && json.Unmarshal(text, &sizes) == nil
}

// removeClean removes the record of a clean stop.
func removeClean(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, cleanFile)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return syncDir(dir)
}

// checkSizes finds blocks that are missing, or have a different size than after the clean stop.
func (f *Files) checkSizes(sizes map[string]int64) (found []Damage) {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		file := filepath.Join(f.StreamsDir(), filepath.FromSlash(name))
		stream, _, _ := strings.Cut(name, "/")
		info, err := os.Stat(file)
		switch {
		case f.IsVolatile(stream):
		case err != nil:
			found = append(found, Damage{Stream: stream, file: file, What: "is missing"})
		case info.Size() != sizes[name]:
			found = append(found, Damage{Stream: stream, file: file, What: fmt.Sprintf("has %d bytes instead of %d", info.Size(), sizes[name])})
		}
	}
	return found
}

// checkStream checks the blocks of a stream, newest first. After a clean stop, it only checks the
// newest blocks, up to about maxCleanCheck bytes.
func checkStream(dir string, clean bool) ([]Damage, error) {
	blocks, err := BlocksOf(dir)
	if err != nil {
		return nil, err
	}
	var found []Damage
	r := newBlockReader()
	checked := 0
	for i := len(blocks) - 1; i >= 0; i-- {
		if clean && checked > maxCleanCheck {
			break
		}
		more, n, last, err := checkFile(dir, blocks[i], i == len(blocks)-1 && !clean, r)
		if err != nil {
			return nil, err
		}
		checked += n
		found = append(found, more...)
		for k := range found { // set After of the damage in newer blocks
			if found[k].After == 0 && found[k].file != blockFile(dir, blocks[i]) {
				found[k].After = last
			}
		}
	}
	return found, nil
}
