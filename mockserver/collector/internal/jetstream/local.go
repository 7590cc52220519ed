package jetstream

import (
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// A local is the state of a journal with a data directory.
type local struct {
	lock      *datadir.Lock
	files     *datadir.Files
	ballast   *datadir.Ballast
	server    *servers.Embedded // nil until the directory is checked
	canary    *datadir.Canary   // nil if messages are acknowledged before they are synced
	recent    datadir.Recent
	snapshots snapshotStore
	recovered bool // Open has succeeded
}

// note records an acknowledged message in the recent file.
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

// openServer locks and checks the directory, and then starts the embedded server.
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
		Path: j.options.Dir, Interval: j.options.SyncInterval, Log: j.Log, Configs: j.streams(), Advice: j.options.repairHint(), AcceptLoss: j.options.AcceptLoss,
		Volatile: []string{j.Names.Stream(record.StreamRetry), j.Names.Stream(record.StreamAttempts)}, Rebuilt: j.Names.Stream(record.StreamRetry),
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
	if err := j.local.ballast.Reserve(); datadir.IsDiskFull(err) {
		j.Log.Warn("the disk is full: new calls are refused until there is space", "directory", j.options.Dir)
		j.incoming.usage.diskFull.Store(true)
	} else if err != nil {
		return err
	}
	if err := j.withBallast(func() error { return j.checkStore(m) }); err != nil {
		return err
	}
	j.local.server = servers.NewEmbedded(j.options.Dir, j.options.SyncInterval, j.Log)
	if j.options.SyncInterval <= 0 {
		j.local.canary = datadir.NewCanary(j.options.Dir)
		j.Synced = j.checkCanary
	}
	return j.withBallast(j.startServer)
}

// withBallast runs a step of the start. If the step fails and the disk is full, withBallast
// releases the ballast and runs the step again. It checks the disk, because an error of the
// embedded server may not wrap the cause.
func (j *Journal) withBallast(step func() error) error {
	err := step()
	if err == nil || j.local == nil || !datadir.IsDiskFull(errors.Join(err, datadir.Writable(j.options.Dir))) {
		return err
	}
	j.releaseBallast()
	if err = step(); err != nil {
		err = fmt.Errorf("the disk with %s is full: free space on it: %w", j.options.Dir, err)
	}
	return err
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
	j.previous.snapshot = j.loadSnapshot()
	noted, err := datadir.LoadRecent(j.options.Dir)
	if err != nil {
		return err
	}
	j.previous.accepted = j.previous.snapshot.applyNoted(noted)
	sizes, clean := datadir.ReadClean(j.options.Dir)
	j.previous.clean = clean
	return j.local.files.Check(m, sizes, clean, j.mayLose)
}

// mayLose reports whether the journal may open despite the damage. If so, it records the cause.
func (j *Journal) mayLose(d datadir.Damage) bool {
	if d.What == "" && j.local.files.IsVolatile(d.Stream) {
		return true
	}
	may := j.options.AcceptLoss || j.isUnsynced(d.Stream, d.After)
	if may {
		j.previous.causes = append(j.previous.causes, d.String())
	}
	return may
}

// isUnsynced reports whether the messages after a sequence number may not have been synced when
// the previous process ended. A power cut can have removed such messages.
func (j *Journal) isUnsynced(stream string, after uint64) bool {
	if j.options.SyncInterval <= 0 || j.previous.clean || j.previous.snapshot == nil {
		return false
	}
	switch stream {
	case j.Names.Stream(record.StreamCalls):
		return after >= j.previous.snapshot.ledger.Calls
	case j.Names.Stream(record.StreamOutcomes):
		return after >= j.previous.snapshot.ledger.Outcomes
	}
	m, ok := j.previous.snapshot.marks[stream]
	return ok && after >= m.last
}

// checkCanary returns nil if all acknowledged messages are on disk. Otherwise it stops the server.
// The unconfirmed messages are stored again after the server's restart.
func (j *Journal) checkCanary() error {
	err := j.local.canary.Check()
	if err != nil {
		j.local.server.Fail(err)
	}
	return err
}

// releaseBallast releases the ballast of a full disk and makes the journal reject calls.
func (j *Journal) releaseBallast() {
	if j.local.ballast.Release() {
		j.Log.Warn("the disk is full: new calls are refused until there is space; pending calls are delivered", "directory", j.options.Dir)
		j.incoming.usage.diskFull.Store(true)
	}
}

// logNoSpace logs how much space is needed, if the disk is still full after the ballast was
// released.
func (j *Journal) logNoSpace(cause error) {
	free, _, _ := datadir.DiskSpace(j.options.Dir)
	j.Log.Error("the disk is full, and its reserved space is used up: nothing is delivered until there is space",
		"directory", j.options.Dir, "needed", j.local.files.RoomNeeded(), "free", free, "error", cause)
}

// reserveBallast reserves the ballast again when the disk has space. The journal then accepts
// calls. Until then, reserveBallast triggers trimming.
func (j *Journal) reserveBallast() {
	if !j.incoming.usage.diskFull.Load() {
		return
	}
	if err := j.local.ballast.Reserve(); err != nil {
		j.Log.Debug("the disk is still full", "error", err)
		store.Poke(j.trimmer.soon)
		return
	}
	j.incoming.usage.diskFull.Store(false)
	j.Log.Info("the disk has space again; new calls are accepted", "directory", j.options.Dir)
}

// closeDirectory stops the server and releases the lock of the directory.
func (j *Journal) closeDirectory() error {
	if err := j.stopServer(); err != nil {
		j.Log.Warn("not all data may be synced; the next start checks all files", "error", err)
	}
	if err := j.local.recent.Close(); err != nil {
		j.Log.Debug("closing the recent file failed", "error", err)
	}
	return j.local.lock.Release()
}

// stopServer stops the server. If all data is on disk, it marks the directory as cleanly closed.
func (j *Journal) stopServer() error {
	if j.local.server == nil {
		return nil
	}
	if err := j.local.server.Stop(); err != nil || !j.local.recovered {
		return err
	}
	if _, err := j.Status.Writable(); err != nil {
		return err
	}
	if err := j.local.files.ConfirmSynced(); err != nil {
		return err
	}
	return j.local.files.WriteClean()
}
