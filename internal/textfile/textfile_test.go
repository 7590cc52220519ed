package textfile

import (
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

func TestOtherEncodings(t *testing.T) {
	for _, data := range []string{"\xff\xfea\x00", "caf\xe9"} {
		if text, err := Decode([]byte(data)); err == nil || text != nil {
			t.Errorf("Decode(%q) = %q, %v", data, text, err)
		}
	}
}
