// Package terminal measures, truncates and styles text for terminals.
//
// Text from senders must pass through [text.Plain] before it is printed. Widths are numbers of columns
// on the screen, not of bytes or characters.
package terminal
