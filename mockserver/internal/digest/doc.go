// Package digest names things by a short hash of what they are: audiences, deletion
// requests and sessions have keys of it in the state. The parts of a name are hashed
// with their lengths, so that no two lists of parts have the same text.
//
// # Files
//
//  1. digest.go: all of it
package digest
