package history

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// IsSynthetic reports whether the collector made the call itself: a notification of
// a deletion request, or a call of an audience or a computed trait, by the form of
// its messageId.
func IsSynthetic(c *tracking.Call) bool {
	switch c.Type {
	case "delete":
		return true
	case "identify":
		kind, _, _ := strings.Cut(c.ID, "-") // see syncWork.messageID
		if kind != "audience" && kind != "trait" {
			return false
		}
		parts := strings.Split(c.ID, "-")
		return len(parts) == 4 && digest.Valid(parts[1]) && digest.Valid(parts[3])
	}
	return false
}
