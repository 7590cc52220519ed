package tracking

// A Sender describes the sender of a request to the tracking API. UserAgent and Library are claims of
// the sender that are not verified.
type Sender struct {
	Address   string `json:"address,omitempty"`   // address of the peer, or of the client as reported by trusted proxies
	UserAgent string `json:"userAgent,omitempty"` // at most 200 characters
	Library   string `json:"library,omitempty"`   // value of context.library, such as analytics-go 1.2.3; at most 100 characters
}
