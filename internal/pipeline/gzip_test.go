package pipeline

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

func requireGunzips(t *testing.T, want string, parts ...[]byte) {
	t.Helper()
	src := bytes.NewReader(bytes.Join(parts, nil))
	r, err := gzip.NewReader(src)
	require.NoError(t, err)
	r.Multistream(false)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, want == string(got), "%d bytes became %d", len(want), len(got))
	require.Zero(t, src.Len(), "bytes follow the member")
}

// FuzzZipped checks that a compressed body is a gzip file with one member.
func FuzzZipped(f *testing.F) {
	f.Add([]byte(`{"batch":[{"a":1}],"sentAt":"`), []byte(`2006-01-02T15:04:05.000Z"}`))
	f.Add([]byte{}, []byte{})
	f.Add(bytes.Repeat([]byte("abc "), 100_000), bytes.Repeat([]byte("t"), 65535))
	f.Add(bytes.Repeat([]byte{0xff, 0, 1}, 70_000), []byte("x"))
	var c compressor
	f.Fuzz(func(t *testing.T, raw, tail []byte) {
		if len(tail) > 65535 {
			return
		}
		z := c.compress(raw, 0)
		require.True(t, bytes.Equal(raw, z.raw()))
		requireGunzips(t, string(raw)+string(tail), z.data, z.appendEnd(nil, tail))
	})
}

// splitAll splits a batch into single calls and returns them.
func splitAll(b *batch, s *settings) (calls []string) {
	if b.calls == 1 {
		return []string{string(b.buf[len(bodyHead) : len(b.buf)-len(s.BatchContext)-wire.IDLen-len(bodySeam)])}
	}
	first, second, _ := b.split(b.buf, s)
	return append(splitAll(first, s), splitAll(second, s)...)
}

func FuzzSplit(f *testing.F) {
	f.Add(`{"a":"}"}`, "x", uint8(3))
	f.Add("\\\"{[", "}{", uint8(20))
	f.Fuzz(func(t *testing.T, key, value string, n uint8) {
		s := newSettings(Config{BatchContext: []byte(batchContext), WriteKey: "k"})
		b := &batch{buf: []byte(bodyHead)}
		var want []string
		for i := range int(n) + 1 {
			encoded, err := wire.AppendMap(nil, map[string]interface{}{key: value, "n": i, "in": map[string]interface{}{value: key}}, "")
			require.NoError(t, err)
			want = append(want, string(encoded))
			b.append(encoded)
		}
		b.seal(s)
		require.Equal(t, want, splitAll(b, s))
	})
}

func BenchmarkCompress(b *testing.B) {
	var c compressor
	var raw []byte
	for i := range 640 {
		raw = fmt.Appendf(raw, `{"properties":{"plan":"team","price":%d.5,"currency":"EUR"},"userId":"user-%d","event":"Order Completed","type":"track","messageId":"01a1fdff-42ea-7ff7-a23c-af4d6e8%05d","timestamp":"2024-02-29T01:02:03.%03dZ"},`, i%90, i*7919, i, i%1000)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		c.compress(raw, tailLen)
	}
}
