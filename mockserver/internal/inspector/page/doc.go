// Package page renders the pages of the inspector: templates, static files, login, and text
// formatting.
//
// A page is a file in templates/ that defines blocks for the layout in templates/shared/:
// main, and optionally class, head and status. Its handler returns a [Response] with the value
// of the template, or an error. Styles and scripts for one page are files in assets/ that the
// block head references with the function asset. Their URLs contain a hash of all assets, so
// browsers can cache them; assets therefore refer to each other by relative URLs.
package page
