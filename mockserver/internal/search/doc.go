// Package search reads what people write into a search field for calls:
//
//	event:"Signed Up" -user:ada prop.plan:Pro status:4xx since:1h free text
//
// A [Query] is a list of terms that must all hold, those of the same field too. A term names
// a field and a value, or is a text to look for anywhere in a call. Quotes hold a value
// together that has spaces, and take their meaning from the signs in it. A minus before a
// term turns it round.
//
// [Parse] reads a query, or says where it cannot be read and what would be right.
// [Query.String] writes it in the one form that links have. [Complete] says how what was
// begun may go on. What terms mean for a call is decided by those who have calls;
// [Term.MatchesBody] looks at its properties, traits and context.
//
// All are pure functions. Queries are bounded in length and number of terms.
//
// # Files
//
//  1. complete.go: how a query may go on
//  2. parse.go: a query is read
//  3. match.go: a term is held against texts and bodies
//  4. query.go: a query is written, and the fields that there are
//  5. time.go: times and ages
package search
