// Package eventpage shows what the calls of each event look like: which events there are,
// and of one its properties, their types and values, what of them is odd, and which calls
// have a property so.
//
// # Files
//
//  1. routes.go: the pages
//  2. events.go: all events
//  3. event.go: one event
//  4. calls.go: the calls that have a property so
//  5. pages.go: what all of these need
package eventpage
