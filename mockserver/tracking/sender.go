package tracking

// A Sender is who sent a request to the tracking API. All but the address is what it says
// of itself.
type Sender struct {
	Address   string `json:"address,omitempty"`   // of the other end of the connection, or before it as trusted proxies say
	UserAgent string `json:"userAgent,omitempty"` // at most its first 200 characters
	Library   string `json:"library,omitempty"`   // of context.library, as in analytics-go 1.2.3; at most its first 100 characters
}
