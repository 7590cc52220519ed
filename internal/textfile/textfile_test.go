package textfile

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestByteOrderMark(t *testing.T) {
	for data, want := range map[string]string{"": "", "a": "a", "\uFEFF": "", "\uFEFFab": "ab", "a\uFEFF": "a\uFEFF", "\uFEFF\uFEFF": "\uFEFF"} {
		if text, err := Decode([]byte(data)); err != nil || string(text) != want {
			t.Errorf("Decode(%q) = %q, %v", data, text, err)
		}
		if text, err := io.ReadAll(NewReader(iotest.OneByteReader(strings.NewReader(data)))); err != nil || string(text) != want {
			t.Errorf("NewReader(%q) reads %q, %v", data, text, err)
		}
	}
}

// A file that fails once, like the body of a request that was cut off, is not taken as complete.
func TestErrorAtTheStart(t *testing.T) {
	want := errors.New("cut off")
	file := io.MultiReader(strings.NewReader("a"), &failsOnce{want})
	if text, err := io.ReadAll(NewReader(file)); string(text) != "a" || !errors.Is(err, want) {
		t.Errorf("NewReader reads %q, %v", text, err)
	}
}

type failsOnce struct{ err error }

func (f *failsOnce) Read([]byte) (int, error) {
	err := cmp.Or(f.err, io.EOF)
	f.err = nil
	return 0, err
}

func TestOtherEncodings(t *testing.T) {
	for _, data := range []string{"\xff\xfea\x00", "caf\xe9"} {
		if text, err := Decode([]byte(data)); err == nil || text != nil {
			t.Errorf("Decode(%q) = %q, %v", data, text, err)
		}
	}
}
