package jetstream

import (
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// note adds an acknowledged message to the recent file.
func (j *Journal) note(a record.Accepted) {
	if j.local == nil {
		return
	}
	if err := j.local.recent.Add(a); err != nil {
		j.Log.Debug("an acknowledged message is missing in the recent file", "error", err)
	}
}

// setBase sets the base that the next snapshot contains.
func (l *local) setBase(base []byte) {
	if l == nil {
		return
	}
	l.snapshots.mu.Lock()
	defer l.snapshots.mu.Unlock()
	l.snapshots.base, l.snapshots.stored = base, nil
}

// openServer locks and checks the directory, then starts the embedded server.
func (j *Journal) openServer() error {
	lock, err := datadir.Take(j.options.Dir)
	if err != nil {
		return err
	}
	j.local = &local{lock: lock}
	if err := datadir.RemoveTemporary(j.options.Dir); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.local.files = &datadir.Files{
		Path: j.options.Dir, Interval: j.options.SyncInterval, Log: j.Log, Configs: j.streams(), Advice: j.options.howToGoOn(), AcceptLoss: j.options.AcceptLoss,
		Volatile: []string{j.Names.Stream(record.StreamRetry), j.Names.Stream(record.StreamAttempts)}, Remade: j.Names.Stream(record.StreamRetry),
	}
	m, err := j.local.files.ReadMarker()
	if err != nil {
		return err
	}
	if !m.Ready {
		if err := m.Write(j.options.Dir); err != nil {
			return err
		}
	}
	j.local.ballast = datadir.NewBallast(j.options.Dir)
	if err := j.local.ballast.Take(); datadir.IsDiskFull(err) {
		j.Log.Warn("the disk is full: calls are refused until it has room", "directory", j.options.Dir)
		j.incoming.usage.setDiskFull(true)
	} else if err != nil {
		return err
	}
	if err := j.withRoom(func() error { return j.checkStore(m) }); err != nil {
		return err
	}
	j.local.server = servers.NewEmbedded(j.options.Dir, j.options.SyncInterval, j.Log)
	if j.options.SyncInterval <= 0 {
		j.local.canary = datadir.NewCanary(j.options.Dir)
		j.Synced = j.lookAtCanary
	}
	return j.withRoom(j.startServer)
}

// withRoom runs a step of the start. If it fails on a full disk, withRoom releases the
// ballast and runs it again. An error of the embedded server may not wrap the cause.
func (j *Journal) withRoom(step func() error) error {
	err := step()
	if err == nil || j.local == nil || !datadir.IsDiskFull(errors.Join(err, datadir.Writable(j.options.Dir))) {
		return err
	}
	j.giveWay()
	return step()
}

func (j *Journal) startServer() error {
	if j.local.canary != nil {
		if err := j.local.canary.Place(); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return j.local.server.Start()
}

// checkStore checks the files of the previous run and repairs harmless damage. It returns
// ErrDamaged if calls may be lost.
func (j *Journal) checkStore(m datadir.Marker) error {
	j.left.kept = j.loadSnapshot()
	noted, err := datadir.LoadRecent(j.options.Dir)
	if err != nil {
		return err
	}
	j.left.accepted = j.left.kept.raise(noted)
	sizes, clean := datadir.ReadClean(j.options.Dir)
	j.left.clean = clean
	return j.local.files.Check(m, sizes, clean, j.mayLose)
}

// mayLose reports whether the journal may open despite the damage, and records its cause.
func (j *Journal) mayLose(d datadir.Damage) bool {
	if d.What == "" && j.local.files.IsVolatile(d.Stream) {
		return true
	}
	may := j.options.AcceptLoss || j.isYoung(d.Stream, d.After)
	if may {
		j.left.causes = append(j.left.causes, d.String())
	}
	return may
}

// isYoung reports whether messages after a sequence number were possibly not synced when
// the previous process ended, so that a power cut explains their loss.
func (j *Journal) isYoung(stream string, after uint64) bool {
	if j.options.SyncInterval <= 0 || j.left.clean || j.left.kept == nil {
		return false
	}
	switch stream {
	case j.Names.Stream(record.StreamCalls):
		return after >= j.left.kept.account.Calls
	case j.Names.Stream(record.StreamOutcomes):
		return after >= j.left.kept.account.Outcomes
	}
	m, ok := j.left.kept.marks[stream]
	return ok && after >= m.last
}

// lookAtCanary returns nil if all acknowledged messages are on disk. Otherwise it stops the
// server: unconfirmed messages are stored again after its restart.
func (j *Journal) lookAtCanary() error {
	err := j.local.canary.Look()
	if err != nil {
		j.local.server.Fail(err)
	}
	return err
}

// giveWay releases the ballast of a full disk and refuses further calls.
func (j *Journal) giveWay() {
	if j.local.ballast.Drop() {
		j.Log.Warn("the disk is full: calls are refused until it has room; those that are pending are delivered", "directory", j.options.Dir)
		j.incoming.usage.setDiskFull(true)
	}
}

// tellLack logs the space needed when the disk is full although the ballast was released.
func (j *Journal) tellLack(cause error) {
	j.Log.Error("the disk is full, and what was held on it for that is used up: nothing is delivered until it has room",
		"directory", j.options.Dir, "needed", j.local.files.RoomNeeded(), "free", j.local.ballast.Free(), "error", cause)
}

// holdBallast reserves the ballast again when the disk has space, and then accepts calls.
// Until then it triggers trimming.
func (j *Journal) holdBallast() {
	if !j.incoming.usage.isDiskFull() {
		return
	}
	if err := j.local.ballast.Take(); err != nil {
		j.Log.Debug("the disk is still full", "error", err)
		store.Poke(j.trimmer.soon)
		return
	}
	j.incoming.usage.setDiskFull(false)
	j.Log.Info("the disk has room again; calls are taken", "directory", j.options.Dir)
}

// leaveDirectory stops the server and releases the lock of the directory.
func (j *Journal) leaveDirectory() error {
	if err := j.leaveServer(); err != nil {
		j.Log.Warn("not all that is stored is certain to be on the disk; the next start looks at all of it", "error", err)
	}
	if err := j.local.recent.Close(); err != nil {
		j.Log.Debug("what was accepted last is not noted", "error", err)
	}
	return j.local.lock.Release()
}

// leaveServer stops the server and marks the directory as cleanly closed if all data is
// on disk.
func (j *Journal) leaveServer() error {
	if j.local.server == nil {
		return nil
	}
	if err := j.local.server.Stop(); err != nil || !j.local.recovered {
		return err
	}
	if _, err := j.Status.Writable(); err != nil {
		return err
	}
	if err := j.local.files.Prove(); err != nil {
		return err
	}
	return j.local.files.WriteClean()
}
