package jetstream

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestBlocksAreReadAsTheServerWritesThem holds what is known of the server's files
// against the server that is used: a change of their format fails here.
func TestBlocksAreReadAsTheServerWritesThem(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(within(t), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		m := nats.NewMsg(j.names.Subject("s", "test", fmt.Sprint(i%20))) // some replace others
		m.Data = bytes.Repeat([]byte{byte(i)}, 10*i)
		m.Header.Set("A", strings.Repeat("b", i)) // without headers the length of the subject is not covered
		if _, err := j.publish(within(t), j.nc, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	stream := filepath.Join(dir, storeDir, "$G", "streams", j.names.Stream(record.StreamState))
	blocks, err := blocksOf(stream)
	if err != nil || len(blocks) == 0 {
		t.Fatalf("blocks %v, %v", blocks, err)
	}
	for _, b := range blocks {
		data, err := os.ReadFile(filepath.Join(stream, "msgs", fmt.Sprintf("%d.blk", b)))
		if err != nil {
			t.Fatal(err)
		}
		h := newBlockHash(filepath.Base(stream), b)
		if found, _ := checkBlock(data, h); len(found) > 0 {
			t.Fatalf("block %d: %v", b, found)
		}
		for at := range data {
			bad := bytes.Clone(data)
			bad[at] ^= 1
			if at%37 != 0 {
				continue
			}
			if found, _ := checkBlock(bad, h); len(found) != 1 {
				t.Errorf("byte %d was changed, and found were %v", at, found)
			}
		}
	}
}
