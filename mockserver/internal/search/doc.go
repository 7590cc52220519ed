// Package search parses searches for calls:
//
//	event:"Signed Up" -user:ada prop.plan:Pro status:4xx since:1h free text
//
// A [Query] is a list of terms that must all match, including terms of the same field. A term
// has a field and a value, or is text that may occur anywhere in a call. Quotes enclose values
// with spaces or special characters. A minus negates a term.
//
// [Parse] parses a query; its errors contain the position and a hint. [Query.String] returns
// the canonical form. [Complete] returns suggestions. Callers evaluate terms;
// [Term.MatchesBody] evaluates conditions on properties, traits and context.
//
// All functions are pure. The length of a query and its number of terms are limited.
package search
