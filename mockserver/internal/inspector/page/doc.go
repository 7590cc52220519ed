// Package page is what the pages of the inspector share: how a handler's answer is
// rendered, the login, templates, scripts and styles, and texts for people.
//
// A page is a template in templates/, which defines its blocks for the layout in
// templates/shared/: main, and class, head and status if it wants them. Its handler
// returns an [Answer] with the value that the template shows, or an error. Block head
// is for styles and scripts of that page alone, which are files in assets/.
//
// # Files
//
//  1. login.go: the login
//  2. answer.go: a handler's answer becomes a page, a part of one, or a redirect
//  3. assets.go: templates, scripts and styles
//  4. text.go: texts for people
//  5. json.go: a document is laid out in lines
package page
