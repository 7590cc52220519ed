package jetstream

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// checkStore checks what an earlier process has left, and returns ErrDamaged if there is
// damage that may be loss. It removes damage where it may.
func (j *Journal) checkStore(m datadir.Marker) error {
	j.kept = j.loadSnapshot()
	noted, err := datadir.LoadRecent(j.options.Dir)
	if err != nil {
		return err
	}
	j.accepted = j.kept.raise(noted)
	sizes, clean := datadir.ReadClean(j.options.Dir)
	j.clean = clean
	return j.files.Check(m, sizes, clean, j.mayLose)
}

// mayLose reports whether the journal may go on without what is damaged, and
// remembers what that was.
func (j *Journal) mayLose(d datadir.Damage) bool {
	if d.What == "" && j.files.IsVolatile(d.Stream) {
		return true
	}
	may := j.options.AcceptLoss || j.isYoung(d.Stream, d.After)
	if may {
		j.causes = append(j.causes, d.String())
	}
	return may
}

// isYoung reports whether what followed a message of a stream may have been torn by
// a power cut: it was not yet brought to the disk.
func (j *Journal) isYoung(stream string, after uint64) bool {
	if j.options.SyncInterval <= 0 || j.options.NATS != nil || j.clean || j.kept == nil {
		return false
	}
	switch stream {
	case j.Names.Stream(record.StreamCalls):
		return after >= j.kept.account.Calls
	case j.Names.Stream(record.StreamOutcomes):
		return after >= j.kept.account.Outcomes
	}
	m, ok := j.kept.marks[stream]
	return ok && after >= m.last
}
