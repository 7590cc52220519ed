// Package rows makes the lines in which the pages of the inspector show calls.
//
// # Files
//
//  1. rows.go: a line of a list
//  2. filter.go: what a list shows
//  3. state.go: a call at each destination
//  4. event.go: where an event is shown
package rows
