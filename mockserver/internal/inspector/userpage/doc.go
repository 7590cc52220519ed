// Package userpage serves the timeline of a user (user.go) and the comparison of two calls
// (compare.go).
package userpage
