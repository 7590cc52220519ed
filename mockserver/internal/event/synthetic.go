package event

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// GeneratedIDPrefix is the prefix of the messageIds that the collector generates for calls without
// one.
const GeneratedIDPrefix = "collector-"

// Kinds of lists of users.
const (
	Audience = "audience"
	Trait    = "trait" // computed trait
)

// ListCallID returns the messageId of the call that a list causes for a user. list consists of the
// digest that identifies the audience or the computed trait, a hyphen and a number. user is a digest.
func ListCallID(kind, list, user string) string { return kind + "-" + list + "-" + user }

// ListOfCall returns the digest that identifies the audience or the computed trait in a messageId of
// ListCallID. ok is false for other messageIds.
func ListOfCall(messageID string) (id string, ok bool) {
	kind, rest, _ := strings.Cut(messageID, "-")
	if kind != Audience && kind != Trait {
		return "", false
	}
	parts := strings.Split(rest, "-")
	ok = len(parts) == 3 && text.IsDigest(parts[0]) && text.IsDigest(parts[2])
	return parts[0], ok
}
