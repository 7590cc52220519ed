// Package canonical writes JSON as JSON.stringify(JSON.parse(text)) does in
// JavaScript. The form is a fixpoint: the canonical form of canonical text is that
// text. So a receiver computes the same signature over the raw bytes and over what
// its own JSON.stringify makes of the parsed body.
//
// White space goes. Of an object's keys the array indices "0" to "4294967294"
// come first, ascending, and the others keep their order; of duplicate keys the
// last value stands in the first one's place. Numbers are written as ECMAScript
// writes a double (1.0 is 1, -0 is 0, 1e400 is null). Strings are escaped no
// more than they must be; a lone surrogate stays an escape, and each maximal
// part of an invalid UTF-8 sequence becomes U+FFFD.
//
// [Append] writes a whole document, [ReadObject] gives an object's members one by
// one, and [Changes] reports what of a document its canonical form cannot keep.
//
// # Files
//
//  1. object.go: the members of an object
//  2. canonical.go: a document is read: arrays, objects, and what is in them
//  3. string.go, number.go: strings and numbers
//  4. canonizer.go: what has been read and written of a document
//  5. changes.go: what a document loses
package canonical
