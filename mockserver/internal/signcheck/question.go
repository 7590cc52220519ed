package signcheck

import "github.com/seed-45eadc4a/analytics-go/mockserver/webhook"

// A Question contains a signature and all known data about its delivery.
type Question struct {
	Given    string            // signature that the receiver computed
	Secret   string            // the secret of the destination
	Previous string            // the previous secret, or empty
	Scheme   webhook.Signature // empty means webhook.SignatureService
	Body     []byte            // body that the collector signed; nil if unknown
	Pasted   []byte            // body that the receiver signed; nil if unknown
	Sent     []Stamp           // Standard Webhooks attempts, newest first
}

// A Stamp contains the signed headers of a Standard Webhooks attempt.
type Stamp struct{ ID, Timestamp string }
