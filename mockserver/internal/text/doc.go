// Package text writes numbers and names for people, in messages and pages: cut to a
// length, with a noun in the right number, and write keys without giving them away.
//
// # Files
//
//  1. text.go: lengths, numbers, and a search that ignores case
//  2. redact.go: a name for a write key
package text
