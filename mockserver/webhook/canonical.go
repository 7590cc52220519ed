package webhook

import (
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
)

// Canonical appends the canonical form of the JSON document src to dst and returns the
// extended buffer. The canonical form is the result of JSON.stringify(JSON.parse(src)) in
// JavaScript. Canonical does not change a document in canonical form, so a receiver computes
// the same signature over the raw body and over JSON.stringify of the parsed body.
//
// White space is removed. Object keys that are array indices, "0" to "4294967294", come first
// in ascending order; other keys keep their order. If several values have the same key, the last
// value takes the place of the first. Numbers are written like ECMAScript doubles: 1.0 is 1, -0 is
// 0, 1e400 is null. Strings contain only the required escapes. A lone surrogate remains an
// escape, and each maximal part of an invalid UTF-8 sequence becomes U+FFFD.
//
// Arrays and objects may be nested 1,000 levels deep. dst and src must not overlap. If Canonical
// fails, the error contains the offset in src, and dst is returned unchanged. Canonical is safe for
// concurrent use.
func Canonical(dst, src []byte) ([]byte, error) {
	dst, err := canonical.Append(dst, src)
	if err != nil {
		return dst, fmt.Errorf("webhook: %w", err)
	}
	return dst, nil
}
