package store

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestReadErrorsAreLogged makes a stream unreadable for half a minute.
func TestReadErrorsAreLogged(t *testing.T) {
	var log bytes.Buffer
	j := &Store{Log: slog.New(slog.NewTextHandler(&log, nil))}
	logError := (&Tail{store: j, Selection: Selection{Stream: "analytics-CALLS"}}).logTrouble
	for since := time.Duration(0); since < 35*time.Second; since += 100 * time.Millisecond {
		logError(errors.New("no leader"), since)
	}
	assert.Equal(t, 3, strings.Count(log.String(), "level=WARN"), log.String())
	assert.Contains(t, log.String(), `stream=analytics-CALLS for=10s error="no leader"`)
	for since := time.Duration(0); since < 15*time.Second; since += 100 * time.Millisecond {
		logError(errors.New("again"), since)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "error=again"), log.String())

	log.Reset()
	j.Status.Down(errors.New("the disk is full"))
	logError(errors.New("no leader"), time.Hour)
	assert.Empty(t, log.String(), "the outage is already logged")
}
