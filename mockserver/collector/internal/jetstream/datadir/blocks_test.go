package datadir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// TestServerBlockFormat checks blocks that the server has written. It fails if the server's format
// changes.
func TestServerBlockFormat(t *testing.T) {
	dir := t.TempDir()
	s, js := startServer(t, dir)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BLOCKS", Subjects: []string{"test.*"}, MaxMsgsPerSubject: 1})
	require.NoError(t, err)
	for i := range 50 {
		m := nats.NewMsg(fmt.Sprint("test.", i%20)) // some messages replace earlier ones
		m.Data = bytes.Repeat([]byte{byte(i)}, 10*i)
		m.Header.Set("A", strings.Repeat("b", i)) // without headers, the hash does not cover the length of the subject
		_, err := js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	s.Shutdown()
	s.WaitForShutdown()
	stream := filepath.Join(dir, storeDir, "$G", "streams", "BLOCKS")
	blocks, err := BlocksOf(stream)
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
				t.Errorf("byte %d was changed, but found is %v", at, found)
			}
		}
	}
}
