// Package text writes numbers and names for people, in messages and pages: cut to a
// length, with a noun in the right number, and write keys without giving them away.
//
// # Files
//
//  1. text.go: lengths, numbers, a search that ignores case, and a name for a write key
package text
