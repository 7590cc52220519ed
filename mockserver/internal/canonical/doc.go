// Package canonical formats JSON like JSON.stringify(JSON.parse(text)) in JavaScript. The
// canonical form of canonical text is the same text. A receiver therefore computes the same
// signature from the raw body and from its own JSON.stringify output.
//
// webhook.Canonical documents the changes: white space, key order, duplicate keys, numbers
// and escapes. [Append] formats a document, [ReadObject] returns the fields of an object, and
// [Changes] reports values that are not preserved.
package canonical
