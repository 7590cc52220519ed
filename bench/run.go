package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// roleVariable is an environment variable that contains the role of a process. The first process
// does not have it.
const roleVariable = "BENCH_ROLE"

// runRole runs this process in its role. ended is false if the process has no role.
func runRole() (ended bool, err error) {
	switch os.Getenv(roleVariable) {
	case "driver":
		return true, runDriver(os.Args[1])
	case "relay":
		return true, runRelay(os.Args[1:])
	}
	return false, nil
}

// self starts this program as a new process with a role.
func self(role string, args ...string) (*harness.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return harness.Start(program, args, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), roleVariable+"="+role) })
}

// driveLimit is the longest time that a driver may take, in addition to the duration of its calls.
const driveLimit = 3 * time.Minute

// drive runs a driver process and returns its result.
func drive(j job) (r result, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return r, err
	}
	p, err := self("driver", string(text))
	if err != nil {
		return r, err
	}
	limit := time.AfterFunc(j.Duration+driveLimit, p.Kill)
	defer limit.Stop()
	if err := p.Wait(); err != nil {
		return r, fmt.Errorf("driver of %s: %w\n%s", j.Client, err, p.Log())
	}
	printed := strings.TrimSpace(p.Log())
	return r, json.Unmarshal([]byte(printed[strings.LastIndexByte(printed, '\n')+1:]), &r)
}

// measure runs a driver, and calls disturb at the same time.
func measure(j job, disturb func(*receiver) error) (s sample, err error) {
	r, err := newReceiver()
	if err != nil {
		return s, err
	}
	defer r.refuse()
	j.Endpoint, j.Producers = r.url(), cmp.Or(j.Producers, 8)
	disturbed := make(chan error, 1)
	go func() {
		if disturb != nil {
			disturbed <- disturb(r)
		}
		close(disturbed)
	}()
	if s.result, err = drive(j); err != nil {
		return s, err
	}
	if err = <-disturbed; err != nil {
		return s, err
	}
	if s.Made == 0 {
		return s, fmt.Errorf("%s made no calls", j.Client)
	}
	s.tally = r.tally()
	if slices.Contains(referenceNames, j.Client) {
		s.Calls = s.Made
	}
	if s.Lost >= 0 && s.lost() > s.Lost { // lost is negative if retries have delivered calls twice
		return s, fmt.Errorf("%s reports %d lost calls, but %d did not reach the receiver", j.Client, s.Lost, s.lost())
	}
	return s, nil
}

// A contestant is a program that is compared with others.
type contestant struct {
	name string
	run  func() (sample, error)
}

// runs contains the samples of one contestant.
type runs struct {
	name    string
	samples []sample
}

// inTurns runs each contestant once in each round. Each round starts with a different contestant.
func inTurns(rounds int, all ...contestant) ([]runs, error) {
	series := make([]runs, len(all))
	for round := range rounds {
		for i := range all {
			i = (i + round) % len(all)
			s, err := all[i].run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].name, err)
			}
			series[i].name, series[i].samples = all[i].name, append(series[i].samples, s)
		}
	}
	return series, nil
}

// await calls done until it returns true or an error, with a pause between two calls.
func (b *bench) await(pause time.Duration, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := wait(b.ctx, pause); err != nil {
			return err
		}
	}
}

// wait waits for the duration d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
