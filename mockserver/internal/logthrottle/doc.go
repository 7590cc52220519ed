// Package logthrottle keeps a log from saying the same thing again and again: of
// events that come in a flood, one line in a while tells how many there were.
//
// A [Throttle] has a mutex of its own, and holds it for a few instructions.
//
// # Files
//
//  1. logthrottle.go: all of it
package logthrottle
