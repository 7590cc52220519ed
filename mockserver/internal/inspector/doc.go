// Package inspector serves the web pages of a collector: calls, events, users, destinations,
// problems, audiences, deletion requests and signatures. The server renders all pages from
// embedded templates. Pages work without scripts; JavaScript keeps lists and counts live.
//
// The login middleware passes a request to the handler of its page. The handler reads from
// the engine or the history and returns a [page.Response]: the value for a template, a redirect,
// or an error. Templates are rendered completely before the first byte is written. Scripts
// request single blocks of a template. A form redirects to a page that shows the result; a
// cookie passes the result to that page.
//
// A live page keeps a stream open. The stream sends new and changed rows and the number of
// omitted rows, at most four times a second. Each stream is one goroutine without shared
// state. At most 64 streams are open. Functions passed to [history.History.View] and Scan run
// while the history is locked, so they must only select and copy items.
//
// Start with routes.go (pages and paths), stream.go (live updates), call.go (the panel of a
// call), event.go (an event), user.go (a timeline) and form.go (destination settings). Package
// page renders; package rows builds list lines and filters.
package inspector
