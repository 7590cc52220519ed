// Package fields knows the members of a call: their names, how their values are read
// and written, and which forms of a time are understood. Senders and the collector's
// own calls, rules, history and pages all go by this one list.
//
// [ReadCall] reads a stored call back. Its functions keep no state, and read in one
// pass without building values.
//
// # Files
//
//  1. readcall.go: a stored call is read
//  2. library.go: which library made a call
//  3. timestamp.go: times are read leniently, and written in one form
//  4. fields.go: the names of the members, and their values
package fields
