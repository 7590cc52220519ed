// Package causepage has the pages of what goes wrong: failures and refusals by their cause,
// and the replay of the calls that failed for one, with what became of them.
//
// The list asks the engine for counts, and looks for examples among the newest 2,000 items
// that the history has. The page that asks for a replay counts the calls that the journal
// lists: so its number is that of the calls that are replayed, if no other replay comes
// between.
//
// # Files
//
//  1. replay.go: calls that failed for a cause are replayed
//  2. problems.go: the list, and what both share
package causepage
