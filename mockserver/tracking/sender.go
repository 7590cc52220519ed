package tracking

// A Sender describes the sender of a request to the tracking API. UserAgent and Library are
// unverified claims of the sender.
type Sender struct {
	Address   string `json:"address,omitempty"`   // of the peer, or the client address reported by trusted proxies
	UserAgent string `json:"userAgent,omitempty"` // at most 200 characters
	Library   string `json:"library,omitempty"`   // from context.library, such as analytics-go 1.2.3; at most 100 characters
}
