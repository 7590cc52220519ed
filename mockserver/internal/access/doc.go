// Package access stands before the handlers for operators, the admin API and the
// inspector: it says who may ask, and how an error is answered.
//
// # The path of a request
//
// [NewHTTPServer] bounds how slow a sender and a reader may be. A [Guard] looks at the
// host of the request, so that a stranger's name cannot be bound to this machine, at
// its origin, and at its token; wrong tokens are counted by address, and those who
// guess are refused for a while. People give the token once, and get the signed cookie
// of one of [Sessions]. [ErrorOf] makes an answer of any error of the collector.
//
// Only a session that is ended or looked up asks the state, which may block; nothing
// else does. The rules of a Guard are one atomic pointer, the throttle has a mutex.
//
// # Files
//
//  1. longbody.go: the body of a long list, which takes its time
//  2. httpserver.go: a server with time-outs
//  3. session.go: logins of people
//  4. guard.go: hosts, origins and tokens
//  5. throttle.go: wrong tokens are counted
//  6. httperror.go: errors as they are answered
package access
