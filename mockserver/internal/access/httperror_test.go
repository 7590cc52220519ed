package access_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

func TestErrorOfStore(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{journal.ErrClosed, "unavailable"},
		{fmt.Errorf("%w: %w", journal.ErrUnwritable, fs.ErrPermission), "store_unwritable"},
		{fmt.Errorf("reading CALLS: %w", journal.ErrNoResponse), "unavailable"},
	} {
		refused := access.ErrorOf(fmt.Errorf("verifying: %w", c.err))
		assert.Equal(t, http.StatusServiceUnavailable, refused.Status, c.err)
		assert.Equal(t, c.code, refused.Code)
	}
	assert.Equal(t, http.StatusInternalServerError, access.ErrorOf(errors.New("unexpected")).Status)
}
