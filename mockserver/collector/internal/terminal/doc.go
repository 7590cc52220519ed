// Package terminal writes for people: text that cannot steer a terminal, colours where they
// are wanted, and tables that fit.
//
// What senders chose goes through [Plain] before it is printed. Widths are those of columns
// on a screen, not of bytes or characters.
//
// # Files
//
//  1. table.go: columns that fit
//  2. style.go: colours and emphasis
//  3. text.go: harmless text, as wide as wanted
//  4. screen.go: whether there is a terminal, and how wide it is
package terminal
