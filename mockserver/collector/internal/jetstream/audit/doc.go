// Package audit checks stored data while a journal runs. A Verifier recounts all stored calls and
// compares the result with the ledger. A Scrubber repeatedly reads all stored data at a low rate, to
// find corruption before the data is needed.
package audit
