package delivery

// A limiter bounds the calls to one destination that are under way at once, and their
// requests. A call may leave requests behind when it ends: those to webhooks that had
// not answered when another took the call. It must not be used concurrently.
type limiter struct {
	maxCalls    int // under way at once
	maxRequests int // of these calls, and of those that have ended
	calls       int
	requests    int
}

// hasRoom reports whether another call may begin, as far as calls are counted.
func (l *limiter) hasRoom() bool { return l.calls < l.maxCalls }

// fits reports whether a call that makes so many requests may begin. While no request
// is under way, any call may.
func (l *limiter) fits(requests int) bool {
	return l.hasRoom() && (l.requests == 0 || l.requests+requests <= l.maxRequests)
}

// begin counts a call and its requests.
func (l *limiter) begin(requests int) {
	l.calls++
	l.requests += requests
}

// end counts one call less, and those of its requests that ended with it.
func (l *limiter) end(requests int) {
	l.calls--
	l.requests -= requests
}

// add counts requests that a call under way makes beyond those it began with; a
// negative number says that requests have ended.
func (l *limiter) add(requests int) { l.requests += requests }
