package signcheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// A style is a way of encoding JSON.
type style struct {
	spaces bool // write spaces after colons and commas
	ascii  bool // escape non-ASCII characters
	slash  bool // escape slashes
}

// rewrite encodes canonical JSON in another style.
func rewrite(doc []byte, s style) []byte {
	out := make([]byte, 0, len(doc)+len(doc)/4)
	inside := false
	for i := 0; i < len(doc); {
		c := doc[i]
		switch {
		case !inside && (c == ':' || c == ','):
			out = append(out, c)
			if s.spaces {
				out = append(out, ' ')
			}
		case inside && c == '\\' && i+1 < len(doc):
			out = append(out, c, doc[i+1])
			i++
		case inside && c == '/' && s.slash:
			out = append(out, '\\', '/')
		case c >= utf8.RuneSelf && s.ascii:
			r, size := utf8.DecodeRune(doc[i:])
			out = appendEscape(out, r)
			i += size
			continue
		default:
			if c == '"' {
				inside = !inside
			}
			out = append(out, c)
		}
		i++
	}
	return out
}

func appendEscape(out []byte, r rune) []byte {
	for _, unit := range utf16.AppendRune(nil, r) {
		out = fmt.Appendf(out, `\u%04x`, unit)
	}
	return out
}

func indent(doc []byte, by string) []byte {
	var out bytes.Buffer
	if json.Indent(&out, doc, "", by) != nil {
		return nil
	}
	return out.Bytes()
}
