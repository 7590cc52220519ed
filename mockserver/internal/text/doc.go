// Package text formats numbers, names and durations for people.
package text
