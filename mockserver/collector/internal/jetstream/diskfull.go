package jetstream

import (
	"fmt"
	"syscall"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// giveWay gives up the ballast and has calls refused: the disk is full.
func (j *Journal) giveWay() {
	if j.ballast.Drop() {
		j.Log.Warn("the disk is full: calls are refused until it has room; those that are pending are delivered", "directory", j.options.Dir)
		j.usage.setDiskFull(true)
	}
}

// holdBallast takes the ballast again once the disk has room, and has calls taken.
// Until then, calls that all destinations are done with are removed.
func (j *Journal) holdBallast() {
	if !j.usage.isDiskFull() {
		return
	}
	if err := j.ballast.Take(); err != nil {
		j.Log.Debug("the disk is still full", "error", err)
		store.Poke(j.trimSoon)
		return
	}
	j.usage.setDiskFull(false)
	j.Log.Info("the disk has room again; calls are taken", "directory", j.options.Dir)
}

// errDiskFull refuses calls while the ballast is given up.
var errDiskFull = fmt.Errorf("journal: calls are refused until the disk has room: %w", syscall.ENOSPC)
