// Package search parses search queries for calls:
//
//	event:"Signed Up" -user:ada prop.plan:Pro status:4xx since:1h free text
//
// A [Query] is a list of terms. All terms must match, including terms with the same field. A term
// has a field and a value, or is text that may occur anywhere in a call. Quotes enclose values
// with spaces or special characters. A minus negates a term.
//
// [Parse] parses a query. Its errors contain the position and a hint. [Query.String] returns
// the canonical form of a query. [Complete] returns suggestions. Callers evaluate most terms;
// [Term.MatchesBody] evaluates conditions on properties, traits and context.
//
// All functions are pure. The length of a query and the number of its terms are limited.
package search
