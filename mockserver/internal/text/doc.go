// Package text formats numbers, names, durations and JSON for people, and replaces invisible characters.
package text
