package tracking

// Limits bounds requests to the collector. The defaults are the limits of the service.
type Limits struct {
	BodyBytes      int // of a request, decompressed; default 512,000
	CallBytes      int // of one call; default 32,768
	BatchCalls     int // in one request; default 2,500
	MessageIDChars int // of a messageId; default 100

	// CallsPerSecond is the average rate of each source that does not set its own limit. Defaults
	// to no limit.
	CallsPerSecond int
}
