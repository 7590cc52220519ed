// Package canonical writes JSON as JSON.stringify(JSON.parse(text)) does in
// JavaScript. The form is a fixpoint: the canonical form of canonical text is that
// text. So a receiver computes the same signature over the raw bytes and over what
// its own JSON.stringify makes of the parsed body.
//
// webhook.Canonical says what changes: white space, the order of keys, duplicate keys,
// numbers, and escapes.
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
