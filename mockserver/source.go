package mockserver

// A Source is where calls come from: a program, a site or an app. It is known
// by its write key.
type Source struct {
	Name     string `json:"name"`
	WriteKey string `json:"writeKey"`
	// CallsPerSecond is how many calls it may send a second, on average. More are
	// answered 429. Defaults to Limits.CallsPerSecond.
	CallsPerSecond int `json:"callsPerSecond,omitempty"`
}
