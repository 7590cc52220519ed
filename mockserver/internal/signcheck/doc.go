// Package signcheck explains why a receiver computes a different signature. [Check] computes
// signatures with common mistakes (wrong hash, modified secret, re-encoded body, wrong
// encoding) until one matches, and returns each mistake with the code that fixes it. If none
// matches, it returns the tried variants.
//
// All functions are pure. Check computes about a thousand signatures at most.
package signcheck
