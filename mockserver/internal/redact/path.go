package redact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Action is the treatment of a value. Of several actions for one value, the greatest applies.
type Action uint8

// The actions.
const (
	Keep   Action = iota
	Hash          // replaces a value with its HMAC
	Mask          // replaces a value with asterisks and its end
	Remove        // deletes a value
)

// A segment is one part of a path: a key, or any key or element.
type segment struct {
	key string
	any bool
}

// errEscape reports a backslash before an ordinary character.
var errEscape = errors.New("has a backslash that does not precede a dot, a star or a backslash")

// parse splits a path into its segments.
func parse(path string) (segments []segment, err error) {
	var key strings.Builder
	escaped := false // the current key contains an escape
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path) || path[i] == '.':
			segments = append(segments, segment{key.String(), key.String() == "*" && !escaped})
			key.Reset()
			escaped = false
		case path[i] != '\\':
			key.WriteByte(path[i])
		case i+1 == len(path) || strings.IndexByte(`.*\`, path[i+1]) < 0:
			return nil, errEscape
		default:
			i++
			key.WriteByte(path[i])
			escaped = true
		}
	}
	return segments, nil
}

// containers are the fields of a call whose values can be redacted. ids can only be hashed: without
// them a call has no user, and equal masks would merge users.
var (
	containers = []string{"context", "properties", "traits"}
	ids        = []string{"userId", "anonymousId", "previousId", "groupId"}
)

// maxSegments is the maximum number of segments of a path.
const maxSegments = 20

// Check returns an error if an action cannot apply to a path. The error continues a sentence about
// the path, such as "has an empty key".
func Check(path string, action Action) error {
	segments, err := parse(path)
	switch {
	case err != nil:
		return err
	case slices.Contains(segments, segment{}):
		return errors.New("has an empty key")
	case len(segments) > maxSegments:
		return fmt.Errorf("has more than %d keys", maxSegments)
	case len(segments) == 1 && slices.Contains(ids, path):
		if action != Hash {
			return errors.New("can only be hashed")
		}
	case !slices.Contains(containers, segments[0].key):
		return errors.New("does not start with context, properties or traits, and is not userId, anonymousId, previousId or groupId")
	case len(segments) == 1:
		return errors.New("refers to a whole object")
	}
	return nil
}
