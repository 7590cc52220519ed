// Package spell suggests a known name for a misspelled name, and the protocol for an address without one.
package spell

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// maxHost is the maximum length of a host that a suggestion contains, in bytes.
const maxHost = 100

// Protocol returns the probable protocol of an address without one, and the address's host: "https://" for
// a host on the internet, and "http://" for one in a private network. It returns empty strings if the
// address has a protocol or credentials, is not the beginning of a URL, or has a host that is long or not
// ASCII.
func Protocol(address string) (protocol, host string) {
	u, err := url.Parse("http://" + address)
	if err != nil || strings.Contains(address, "://") || u.Hostname() == "" || u.User != nil || strings.HasSuffix(u.Host, ":") {
		return "", ""
	}
	if len(u.Host) > maxHost || strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return "", ""
	}
	if isPublic(strings.ToLower(u.Hostname())) {
		return "https://", u.Host
	}
	return "http://", u.Host
}

// isPublic reports whether a host is probably on the internet, not in a private network.
func isPublic(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
	}
	isPrivate := func(domain string) bool { return strings.HasSuffix(host, domain) }
	return strings.Contains(host, ".") && !slices.ContainsFunc([]string{".localhost", ".local", ".internal"}, isPrivate)
}

// Limits of Closest.
const (
	maxName  = 200 // bytes of a name
	maxKnown = 5000
)

// Closest returns the known name with the smallest [Distance] to name. It compares the names in the form
// that [Plain] returns. The distance may be at most 2, and at most a third of the length of name. If no name
// is that close, or if the names are too long or too many to compare, Closest returns "".
func Closest(name string, known []string) (best string) {
	plain := Plain(name)
	if plain == "" || len(name) > maxName || len(known) > maxKnown {
		return ""
	}
	limit := min(2, len(plain)/3)
	for _, k := range known {
		other := Plain(k)
		if max(len(other)-len(plain), len(plain)-len(other)) > limit {
			continue
		}
		if d := Distance(plain, other); d <= limit {
			best, limit = k, d-1
		}
	}
	return best
}

// Plain returns a name in lower case, without white space, punctuation, and symbols in ASCII.
func Plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsPunct(r) || r <= unicode.MaxASCII && unicode.IsSymbol(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Distance returns the smallest number of edits that turn a into b. An edit inserts, deletes or
// replaces a byte, or swaps two adjacent bytes.
func Distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
