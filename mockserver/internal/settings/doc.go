// Package settings holds what can be changed while a collector runs, its sources and
// destinations, and says what is wrong with it: one [webhook.FieldError] for each
// thing, all of them at once.
//
// Values are not changed once they apply: whoever changes the settings makes others.
//
// # Files
//
//  1. settings.go: sources and destinations, and the rules that they keep together
//  2. reach.go: whether egress allows what they lead to
//  3. name.go: what a name may be, and what has a name
package settings
