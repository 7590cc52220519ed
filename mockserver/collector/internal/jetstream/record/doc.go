// Package record says what the journal's messages look like: the names of streams and
// subjects, the headers and bodies of accepted calls, outcomes, retries and failed calls.
// It knows no connection; what it decodes is either whole or an error.
package record
