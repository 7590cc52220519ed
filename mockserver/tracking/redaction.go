package tracking

import (
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Redaction removes, hashes or masks values of calls. A path names values by the keys that lead to
// them, separated by dots, such as context.ip or traits.address.street. A star stands for every key
// of an object and every element of an array, as in properties.products.*.email. A backslash before
// a dot, a star or a backslash makes it part of a key.
//
// A path starts with context, properties or traits and names values below it, or is userId,
// anonymousId, previousId or groupId, which can only be hashed. If a path names an object or an
// array, Hash and Mask apply to every value in it; null stays null. If several paths name a value,
// Remove precedes Mask, and Mask precedes Hash.
type Redaction struct {
	// Remove lists values that are deleted.
	Remove []string `json:"remove,omitempty"`
	// Hash lists values that are replaced with their HMAC-SHA-256 in hexadecimal digits. The HMAC
	// covers the content of a string, and the JSON text of another value.
	Hash []string `json:"hash,omitempty"`
	// Mask lists values that are replaced with four asterisks. If a value has at least 12 bytes and
	// ends in four ASCII letters or digits, these follow the asterisks.
	Mask []string `json:"mask,omitempty"`
}

// IsZero reports whether r has no paths.
func (r Redaction) IsZero() bool { return len(r.Remove)+len(r.Hash)+len(r.Mask) == 0 }

// maxPaths is the maximum number of paths of a Redaction.
const maxPaths = 100

// Problems returns a [*webhook.FieldError] for each invalid path.
func (r Redaction) Problems() (problems []error) {
	if n := len(r.Remove) + len(r.Hash) + len(r.Mask); n > maxPaths {
		problems = append(problems, &webhook.FieldError{Field: "redact", Problem: fmt.Sprintf("has %d paths", n), Hint: fmt.Sprintf("keep at most %d", maxPaths)})
	}
	for _, list := range []struct {
		name   string
		paths  []string
		action redact.Action
	}{{"remove", r.Remove, redact.Remove}, {"hash", r.Hash, redact.Hash}, {"mask", r.Mask, redact.Mask}} {
		for i, path := range list.paths {
			if err := redact.Check(path, list.action); err != nil {
				problems = append(problems, &webhook.FieldError{
					Field: fmt.Sprintf("redact.%s[%d]", list.name, i), Problem: fmt.Sprintf("is %.60q, which %v", path, err),
					Hint: "use a path such as context.ip or properties.products.*.email",
				})
			}
		}
	}
	return problems
}

// Rules returns the compiled redaction, which must be valid. key is the key of the hashes.
func (r Redaction) Rules(key []byte) *redact.Rules {
	if r.IsZero() {
		return nil
	}
	rules := redact.New(key)
	for action, paths := range map[redact.Action][]string{redact.Remove: r.Remove, redact.Hash: r.Hash, redact.Mask: r.Mask} {
		for _, path := range paths {
			rules.Add(path, action)
		}
	}
	return rules
}
