package tracking

// Limits of what the collector takes. They are those of the service.
type Limits struct {
	BodyBytes      int // of a request, after decompression. Defaults to 512,000
	CallBytes      int // of one call. Defaults to 32,768
	BatchCalls     int // in one request. Defaults to 2,500
	MessageIDChars int // of a messageId. Defaults to 100

	// CallsPerSecond is how many calls each source may send a second, on average,
	// unless it has a limit of its own. Defaults to no limit.
	CallsPerSecond int
}

// WithDefaults returns the limits with defaults in place of those that are not set.
func (l Limits) WithDefaults() Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.BodyBytes, 512_000)
	set(&l.CallBytes, 32_768)
	set(&l.BatchCalls, 2_500)
	set(&l.MessageIDChars, 100)
	return l
}
