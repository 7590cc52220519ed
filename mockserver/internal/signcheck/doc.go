// Package signcheck finds out why a receiver's signature differs from the one that a
// delivery has. [Check] makes signatures as receivers make them by mistake (with another
// hash, another text of the secret, over other bytes, written in another way) until one is
// that of the receiver, and says of each difference what it is and which line of code to
// change. Where none is, it says what was tried.
//
// All of it is pure. What it tries is bounded: a thousand signatures of a body.
//
// # Files
//
//  1. check.go: the ways to sign are tried, those with the fewest mistakes first
//  2. readings.go: what the text of a signature can mean
//  3. keys.go: what a secret can become on its way to a receiver
//  4. contents.go: which bytes a receiver can have signed
//  5. rewrite.go: a body is written as other programs write JSON
//  6. question.go: what is known of a signature
//  7. mistake.go: a difference in words, with the code that mends it
package signcheck
