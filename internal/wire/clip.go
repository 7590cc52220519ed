package wire

import (
	"strings"
	"unicode/utf8"
)

// MaxRepeated is the number of bytes of its input that an error repeats.
const MaxRepeated = 200

// Clip returns text as UTF-8, without the bytes after the first most.
func Clip(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	for n := range min(most, utf8.UTFMax) { // a character is cut at its start
		if utf8.RuneStart(text[most-n]) {
			most -= n
			break
		}
	}
	return strings.ToValidUTF8(text[:most], string(utf8.RuneError)) + "…"
}
