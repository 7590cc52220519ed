// Package copyas writes a call as code that makes it again: as commands for a shell, as
// programs in Go and Node, and as a test.
//
// What is made again is a call of its own. It has all that the sender gave, and when it
// happened; the times of its way here and its messageId are left out, as the collector
// would take it for a repeat of the first one.
//
// Calls are hostile: whatever stands in one is written as a literal of the language, and
// cannot end it. All are pure functions.
//
// # Files
//
//  1. curl.go: commands for a shell
//  2. node.go: a program for Node
//  3. gocode.go: a program and a test in Go
//  4. call.go: what is sent
//  5. literal.go: texts and values as the languages write them
package copyas
