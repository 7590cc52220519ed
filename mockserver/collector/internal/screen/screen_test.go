package screen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/screen"
)

func TestAScreenObeysWhatProgramsWrite(t *testing.T) {
	for _, c := range []struct{ name, written, want string }{
		{"lines", "ab\r\ncd", "ab\ncd\n\n\n"},
		{"a line feed alone", "ab\ncd", "ab\n  cd\n\n\n"},
		{"places", "\x1b[2;3Hx\x1b[Hy\x1b[4dz\x1b[6GA", "y\n  x\n\n z   A\n"},
		{"erasing", "abcdef\x1b[3G\x1b[Kx\r\nabcdef\x1b[2G\x1b[3X", "abx\na   ef\n\n\n"},
		{"repeating, inserting and deleting", "a\x1b[3b\r\nabcd\x1b[2G\x1b[2@\r\nabcd\x1b[2G\x1b[2P", "aaaa\na  bcd\nad\n\n"},
		{"scrolling", "a\r\nb\r\nc\r\nd\r\ne", "b\nc\nd\ne\n"},
		{"a part that scrolls", "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nx\x1b[r", "a\nc\nx\nd\n"},
		{"a part that scrolls back", "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2;1H\x1bMx", "a\nx\nb\nd\n"},
		{"wide characters", "日本a\x1b[5Gb", "日本b\n\n\n\n"},
		{"another screen, and back", "ab\x1b[?1049hcd\x1b[?1049l", "ab\n\n\n\n"},
		{"titles", "\x1b]2;title\x07a\x1b]2;title\x1b\\b", "ab\n\n\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, pieces := screen.New(8, 4), screen.New(8, 4)
			_, err := whole.Write([]byte(c.written))
			require.NoError(t, err)
			for i := range len(c.written) { // sequences and characters come in pieces, too
				_, err := pieces.Write([]byte(c.written[i : i+1]))
				require.NoError(t, err)
			}
			assert.Equal(t, c.want, whole.String())
			assert.Equal(t, c.want, pieces.String())
			assert.Empty(t, whole.Unknown())
		})
	}
}

func TestAScreenSaysWhatItDoesNotKnow(t *testing.T) {
	s := screen.New(8, 4)
	_, err := s.Write([]byte("\x1b[5z\x1b[48;5;1m\x01"))
	require.NoError(t, err)
	assert.Contains(t, strings.Join(s.Unknown(), ", "), "CSI 5z")
	assert.NotEmpty(t, s.Unknown()[1:])
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[2;3r\x1b[99;99Hx\x1b[5L\x1b[9@\x1b[9P日\x1bM"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := screen.New(7, 5)
		_, err := s.Write(data)
		require.NoError(t, err)
		assert.Len(t, s.Cells(), 5)
	})
}
