package tracking

// Limits of what the collector takes. The defaults are those of the service.
type Limits struct {
	BodyBytes      int // of a request, after decompression. Defaults to 512,000
	CallBytes      int // of one call. Defaults to 32,768
	BatchCalls     int // in one request. Defaults to 2,500
	MessageIDChars int // of a messageId. Defaults to 100

	// CallsPerSecond is how many calls each source may send a second, on average,
	// unless it has a limit of its own. Defaults to no limit.
	CallsPerSecond int
}
