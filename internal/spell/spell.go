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

// Closest returns the known name with the smallest distance to name, ignoring case. If all
// distances are greater than most, it returns "". It uses only the first 40 bytes of name.
func Closest(name string, known []string, most int) (best string) {
	name = strings.ToLower(name[:min(len(name), 40)])
	for _, k := range known {
		if d := Distance(name, strings.ToLower(k)); d <= most {
			best, most = k, d-1
		}
	}
	return best
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
