// Package signcheck explains why a receiver computes a different signature. [Check] computes
// signatures with common mistakes, such as a wrong hash, a modified secret, a re-encoded body or a
// wrong encoding, until one matches. It returns each mistake with the code that fixes it. If none
// matches, it returns the variants that it tried.
//
// All functions are pure. Check computes about a thousand signatures at most.
package signcheck
