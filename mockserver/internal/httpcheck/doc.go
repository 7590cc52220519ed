// Package httpcheck validates URLs and static headers of webhook requests, in settings and
// before each request.
package httpcheck
