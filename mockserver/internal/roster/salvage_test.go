package roster_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
)

func TestSalvageSkipsInvalidEntries(t *testing.T) {
	segment := func(body ...byte) []byte {
		return binary.BigEndian.AppendUint32(body, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	}
	segments := [][]byte{
		segment(1, 0, 1, 'a', 0),
		segment(1, 0, 1, 'b', 0, 7, 1, 'c', 0), // the shared prefix is longer than the previous user
		segment(1, 0, 1, 'd', 0),
	}
	var users []string
	for e, err := range roster.Salvage(len(segments), func(n int) ([]byte, error) { return segments[n], nil }, roster.Empty) {
		require.NoError(t, err)
		users = append(users, e.User)
	}
	assert.Equal(t, []string{"a", "d"}, users)
}
