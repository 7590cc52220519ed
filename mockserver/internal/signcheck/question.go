package signcheck

import "github.com/seed-45eadc4a/analytics-go/mockserver/webhook"

// A Question is a signature that a receiver got or computed, and what is known of how the
// delivery was signed.
type Question struct {
	Given    string            // the signature
	Secret   string            // of the destination
	Previous string            // its secret before, where there are two
	Scheme   webhook.Signature // how the destination signs; empty is webhook.SignatureService
	Body     []byte            // what was signed; nil if that is not known
	Pasted   []byte            // what the receiver computed over; nil if it did not say
	Sent     []Stamp           // of standard signatures, the newest attempt first
}

// A Stamp is what a standard signature is over beside the body.
type Stamp struct{ ID, Timestamp string }
