package datadir

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDamageOfLargeBlocks damages blocks at random positions. Their records cross the ends of the
// buffer, and some records are larger than the buffer. The damage must be the same as in a block that is
// checked in memory.
func TestDamageOfLargeBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	dir := filepath.Join(t.TempDir(), "STREAM")
	file := blockFile(dir, testBlock)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	r := bufio.NewReaderSize(nil, 1000)
	check := func(block []byte) []Damage {
		require.NoError(t, os.WriteFile(file, block, 0o600))
		found, size, last, err := checkFile(dir, testBlock, true, r)
		require.NoError(t, err)
		want, wantLast := findDamage(block, newBlockHash("STREAM", testBlock), true)
		for i := range want {
			want[i].Stream, want[i].file = "STREAM", file
		}
		assert.Equal(t, want, found)
		assert.Equal(t, len(block), size)
		assert.Equal(t, wantLast, last)
		return found
	}
	assert.Empty(t, check(nil))
	for range 15 {
		var block []byte
		for seq := range uint64(1 + random.IntN(20)) {
			message := make([]byte, random.IntN(700<<random.IntN(4)))
			for i := range message {
				message[i] = byte(random.Uint32())
			}
			block = appendRecord(block, seq+1, []byte("NATS/1.0\r\nA: b\r\n\r\n"), message)
		}
		assert.Empty(t, check(block))
		for range 20 {
			bad := bytes.Clone(block)
			bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
			assert.NotEmpty(t, check(bad))
		}
		check(block[:random.IntN(len(block))]) // the end of a record may be the end of the block
		clear(block[random.IntN(len(block)):])
		assert.NotEmpty(t, check(block))
	}
}

// TestScrubBlockReadsPieces checks that a block is not read into memory as a whole, because an idle
// collector scrubs all blocks.
func TestScrubBlockReadsPieces(t *testing.T) {
	var block []byte
	for seq := range uint64(100) {
		block = appendRecord(block, seq+1, nil, bytes.Repeat([]byte("message"), 10_000))
	}
	dir := filepath.Join(t.TempDir(), "STREAM")
	file := blockFile(dir, testBlock)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, block, 0o600))
	read := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	damage := ScrubBlock(dir, testBlock, func(n int) error { read += n; return nil })
	runtime.ReadMemStats(&after)
	assert.Empty(t, damage)
	assert.Equal(t, len(block), read)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}
