// Package canonical formats JSON like JSON.stringify(JSON.parse(text)) in JavaScript. It does not
// change text that is already in canonical form. A receiver therefore computes the same signature
// from the raw body and from the output of its own JSON.stringify.
//
// webhook.Canonical documents the changes: white space, key order, duplicate keys, numbers
// and escapes. [Append] formats a document, [ReadObject] returns the fields of an object, and
// [Changes] reports values that are not preserved.
package canonical
