package webhook

import (
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
)

// Canonical appends to dst the canonical form of the JSON document src and
// returns the extended buffer: the text that JSON.stringify(JSON.parse(src))
// gives in JavaScript. The form is a fixpoint, Canonical of it is itself, so a
// receiver computes the same signature over the raw bytes and over what its
// own JSON.stringify makes of the parsed body.
//
// White space goes. Of an object's keys the array indices "0" to "4294967294"
// come first, ascending, and the others keep their order; of duplicate keys the
// last value stands in the first one's place. Numbers are written as ECMAScript
// writes a double (1.0 is 1, -0 is 0, 1e400 is null). Strings are escaped no
// more than they must be; a lone surrogate stays an escape, and each maximal
// part of an invalid UTF-8 sequence becomes U+FFFD.
//
// Arrays and objects may nest 1,000 deep. dst and src must not overlap. On an
// error, which names the offset in src, dst is returned as it was. Safe for
// concurrent use.
func Canonical(dst, src []byte) ([]byte, error) {
	dst, err := canonical.Append(dst, src)
	if err != nil {
		return dst, fmt.Errorf("webhook: %w", err)
	}
	return dst, nil
}
