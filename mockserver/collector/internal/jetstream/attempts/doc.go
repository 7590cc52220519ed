// Package attempts keeps a log of attempts for people: it drops and counts what it cannot
// store.
package attempts
