package tracking

// Limits contains limits for requests to the collector. The defaults are the limits of the service.
type Limits struct {
	BodyBytes      int // size of a request body after decompression; default 512,000
	CallBytes      int // size of a call; default 32,768
	BatchCalls     int // number of calls in a request; default 2,500
	MessageIDChars int // length of a messageId in characters; default 100

	// CallsPerSecond limits the average rate of each source without its own limit. Defaults to no
	// limit.
	CallsPerSecond int
}
