// Package audit checks stored data while a journal runs. A Verifier recounts all stored calls
// and compares the result with the ledger. A Scrubber reads all stored data slowly and
// repeatedly, to find disk corruption before the disk fails.
package audit
