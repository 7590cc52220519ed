// Package text formats numbers, names, durations, JSON and Go literals for people, replaces invisible
// characters, and decodes JSON strictly.
package text
