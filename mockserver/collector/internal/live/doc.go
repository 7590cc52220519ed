// Package live shows the activity of a collector as it happens: in a terminal UI, as lines of text, or
// as JSON.
//
// It polls a [Source]. The terminal UI shows a limited number of lines per frame and counts the
// omitted lines. Lines and JSON include everything that the collector retains. Control characters from
// senders and receivers are replaced.
//
// The terminal UI uses Bubble Tea: one goroutine owns the model, and requests run in commands that
// send messages to the model.
package live
