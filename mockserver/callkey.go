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
