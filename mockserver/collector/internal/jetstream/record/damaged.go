package record

import (
	"errors"
	"fmt"
)

// ErrDamaged says that what is on disk is not what was stored. Nothing was
// changed; the error says what to do.
var ErrDamaged = errors.New("the store is damaged")

// Damaged returns an ErrDamaged that says what is damaged.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("journal: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}
