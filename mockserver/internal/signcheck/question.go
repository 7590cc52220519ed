package signcheck

import "github.com/seed-45eadc4a/analytics-go/mockserver/webhook"

// A Question contains a signature and the known data about the delivery.
type Question struct {
	Given    string            // the signature
	Secret   string            // the secret of the destination
	Previous string            // the previous secret, or empty
	Scheme   webhook.Signature // empty means webhook.SignatureService
	Body     []byte            // the signed body; nil if unknown
	Pasted   []byte            // the receiver's body; nil if unknown
	Sent     []Stamp           // Standard Webhooks attempts, newest first
}

// A Stamp contains the signed headers of a Standard Webhooks attempt.
type Stamp struct{ ID, Timestamp string }
