package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// startServer starts a server on a directory and connects to it.
func startServer(t *testing.T, dir string) (*server.Server, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, JetStreamMaxStore: 1 << 40, StoreDir: dir, SyncAlways: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(time.Minute))
	nc, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return s, js
}

// TestReadHeaders compares the headers in the files of a running server with the server's responses. The
// stream has several blocks, and the server has removed its first messages.
func TestReadHeaders(t *testing.T) {
	dir := t.TempDir()
	_, js := startServer(t, dir)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BLOCKS", Subjects: []string{"test.*"}, MaxBytes: 120_000})
	require.NoError(t, err)
	for i := range 400 {
		m := nats.NewMsg(fmt.Sprint("test.", i%7))
		m.Data = bytes.Repeat([]byte{byte(i)}, 500)
		if i%10 > 0 {
			m.Header.Set("Number", fmt.Sprint(i))
		}
		_, err := js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	state := stream.CachedInfo().State
	refresh := func() {
		info, err := stream.Info(t.Context())
		require.NoError(t, err)
		state = info.State
	}
	refresh()
	files := &Files{Path: dir}
	msgs := filepath.Join(files.StreamsDir(), "BLOCKS")
	blocks, err := BlocksOf(msgs)
	require.NoError(t, err)
	require.Greater(t, len(blocks), 2)
	require.Greater(t, state.FirstSeq, uint64(1))
	read := func(span record.Span) (got []*jetstream.RawStreamMsg, next uint64) {
		next, err := files.ReadHeaders("BLOCKS", span, func(m *jetstream.RawStreamMsg) error {
			got = append(got, m)
			return nil
		})
		require.NoError(t, err)
		return got, next
	}
	for name, span := range map[string]record.Span{
		"all":        {First: state.FirstSeq, Last: state.LastSeq},
		"the end":    {First: state.LastSeq - 50, Last: state.LastSeq},
		"a part":     {First: state.FirstSeq + 30, Last: state.LastSeq - 30},
		"one":        {First: state.LastSeq, Last: state.LastSeq},
		"none":       {First: state.LastSeq + 1, Last: state.LastSeq},
		"not stored": {First: state.LastSeq + 1, Last: state.LastSeq + 9},
	} {
		got, next := read(span)
		assert.Equal(t, min(span.Last, state.LastSeq)+1, next, name)
		assert.Len(t, got, int(next-span.First), name)
		for i, m := range got {
			want, err := stream.GetMsg(t.Context(), span.First+uint64(i))
			require.NoError(t, err)
			want.Data = nil
			assert.Equal(t, want, m, name)
		}
	}
	_, next := read(record.Span{First: 1, Last: state.LastSeq})
	assert.Equal(t, uint64(1), next, "the first messages have been removed")

	refused := errors.New("refused")
	next, err = files.ReadHeaders("BLOCKS", record.Span{First: state.FirstSeq, Last: state.LastSeq}, func(m *jetstream.RawStreamMsg) error {
		if m.Sequence == state.FirstSeq+5 {
			return refused
		}
		return nil
	})
	assert.Equal(t, refused, err)
	assert.Equal(t, state.FirstSeq+5, next)

	require.NoError(t, stream.SecureDeleteMsg(t.Context(), state.LastSeq-3))
	got, next := read(record.Span{First: state.FirstSeq, Last: state.LastSeq})
	assert.Equal(t, state.LastSeq-3, next, "the message was deleted")
	assert.Len(t, got, int(next-state.FirstSeq))

	file := blockFile(msgs, blocks[1])
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
	inBlock := firstOf(msgs, blocks[1])
	_, next = read(record.Span{First: state.FirstSeq, Last: state.LastSeq})
	assert.True(t, inBlock < next && next < firstOf(msgs, blocks[2]), "the message %d is corrupt", next)
	require.NoError(t, os.Remove(file))
	_, next = read(record.Span{First: state.FirstSeq, Last: state.LastSeq})
	assert.Equal(t, inBlock, next, "the block is missing")
}
