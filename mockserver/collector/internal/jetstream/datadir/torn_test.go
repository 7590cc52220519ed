package datadir

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testBlock = 1

// appendRecord appends a record in the server's format. The record is a message, or the mark of a
// deleted message if message is nil.
func appendRecord(block []byte, seq uint64, headers, message []byte) []byte {
	from := len(block)
	subject := ""
	if message != nil {
		subject = "c.web"
	}
	block = append(block, make([]byte, recordHead)...)
	binary.LittleEndian.PutUint64(block[from+4:], seq)
	binary.LittleEndian.PutUint64(block[from+12:], uint64(time.Now().UnixNano()))
	binary.LittleEndian.PutUint16(block[from+20:], uint16(len(subject)))
	block = append(block, subject...)
	length := uint32(0)
	if len(headers) > 0 {
		length = recordHeaders
		block = binary.LittleEndian.AppendUint32(block, uint32(len(headers)))
		block = append(block, headers...)
	}
	block = append(block, message...)
	h := newBlockHash("STREAM", testBlock)
	_, _ = h.Write(block[from+4 : from+20])
	_, _ = h.Write([]byte(subject))
	_, _ = h.Write(headers)
	_, _ = h.Write(message)
	block = h.Sum(block)
	length |= uint32(len(block) - from)
	binary.LittleEndian.PutUint32(block[from:], length)
	return block
}

const deletedMark = 1 << 62

// checked returns the damage that is found in a block after a kill.
func checked(block []byte) []Damage {
	found, _ := findDamage(block, newBlockHash("STREAM", testBlock), true)
	return found
}

// acknowledgedBlock returns a valid block, and the offset of its last record.
func acknowledgedBlock() (block []byte, last int) {
	random := rand.New(rand.NewPCG(1, 2))
	for seq := range uint64(4) {
		message := make([]byte, 700)
		for i := range message {
			message[i] = byte(random.Uint32())
		}
		last = len(block)
		block = appendRecord(block, seq+1, []byte("NATS/1.0\r\nA: b\r\n\r\n"), message)
	}
	return block, last
}

func TestTornRecord(t *testing.T) {
	block, last := acknowledgedBlock()
	require.Empty(t, checked(block))
	for end := last + 1; end < len(block); end++ {
		wantTorn(t, block[:end], last, end, "the file ends early")
	}
	for sector := last / 512 * 512; sector < len(block); sector += 512 {
		torn := bytes.Clone(block)
		clear(torn[max(sector, last):min(sector+512, len(torn))])
		wantTorn(t, torn, last, len(torn), "a sector is missing")
		if sector > last {
			clear(torn[sector:])
			wantTorn(t, torn, last, len(torn), "the rest is missing")
		}
	}
}

func wantTorn(t *testing.T, block []byte, from, to int, what string) {
	t.Helper()
	found := checked(block)
	require.Len(t, found, 1, what)
	assert.True(t, found[0].torn, "%s, from %d to %d", what, from, to)
	assert.Equal(t, [2]int{from, to}, [2]int{found[0].from, found[0].to}, what)
}

func TestTornDeletionMarks(t *testing.T) {
	block, _ := acknowledgedBlock()
	from := len(block)
	for seq := range uint64(100) {
		block = appendRecord(block, seq+1|deletedMark, nil, nil)
	}
	require.Empty(t, checked(block))
	sector := from/512*512 + 512
	clear(block[sector : sector+512])
	found := checked(block)
	require.Len(t, found, 1)
	assert.True(t, found[0].torn, "the messages are no longer deleted, and nothing is lost")

	block = appendRecord(block, 5, nil, []byte("acknowledged"))
	found = checked(block)
	require.Len(t, found, 1)
	assert.False(t, found[0].torn, "a message was acknowledged after it")
}

// TestChangedRecordIsNotTorn flips each bit of the last record. The record must count as acknowledged,
// because it was written completely.
func TestChangedRecordIsNotTorn(t *testing.T) {
	block, last := acknowledgedBlock()
	for at := last; at < len(block); at++ {
		for bit := range 8 {
			block[at] ^= 1 << bit
			for _, d := range checked(block) {
				assert.False(t, d.torn, fmt.Sprintf("byte %d of the record, bit %d", at-last, bit))
			}
			block[at] ^= 1 << bit
		}
	}
}
