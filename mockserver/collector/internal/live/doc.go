// Package live shows what a collector does while it does it: one line a call and one an
// attempt, on a terminal with keys, elsewhere as plain lines or as JSON.
//
// A [Source] is asked again and again for what happened since. On a terminal a picture
// follows at most so many lines at a time and says how many more there were; as lines
// nothing is left out that the collector remembers. All that senders and receivers chose is
// made harmless before it is printed.
//
// The picture is that of a program of Bubble Tea, which has one goroutine for its state:
// requests run beside it, and send it what came of them. It restores the terminal however
// it ends.
//
// # Files
//
//  1. show.go: on a terminal, until it is left
//  2. print.go: as lines
//  3. update.go: what happens is taken into the picture
//  4. keys.go: what keys do
//  5. screen.go: the picture
//  6. model.go: what the picture is made of
//  7. line.go: an activity as a line
//  8. config.go: what is shown, and where
//  9. activity.go: what a collector tells of
package live
