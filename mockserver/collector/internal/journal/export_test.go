package journal

import "context"

// ForgetCheckpoints has the next start read all that is stored.
func (j *Journal) ForgetCheckpoints(ctx context.Context) error { return j.forgetCheckpoints(ctx) }
