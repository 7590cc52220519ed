package mockserver

import "crypto/sha256"

// callHash names a call: its source and its messageId.
type callHash [16]byte

func hashCall(source, id string) callHash {
	var short [192]byte // what fits costs no allocation
	text := append(append(append(short[:0], source...), 0), id...)
	sum := sha256.Sum256(text)
	return callHash(sum[:16])
}

// hashCalls names the calls of a batch, in their order.
func hashCalls(b Batch) []callHash {
	hashes := make([]callHash, len(b.Calls))
	for i := range b.Calls {
		hashes[i] = hashCall(b.Calls[i].Source, b.Calls[i].ID)
	}
	return hashes
}
