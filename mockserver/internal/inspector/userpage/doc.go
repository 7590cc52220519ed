// Package userpage has the pages about one user: the timeline of the user's calls, and two
// calls compared.
//
// # Files
//
//  1. user.go: the timeline of a user
//  2. compare.go: two calls compared
//  3. pages.go: what both pages share
//  4. preview.go: the members of a call in a line
package userpage
