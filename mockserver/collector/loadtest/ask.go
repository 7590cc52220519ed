package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// A ledger is what the admin API says of a destination. Holds and Problems are of a
// proof.
type ledger struct {
	Accepted, Delivered, Pending int64
	Holds                        bool
	Problems                     []string
}

// readLedger asks a collector for the ledger of its only destination.
func readLedger(ctx context.Context, collector, query string) (l ledger, err error) {
	var answer struct{ Destinations []ledger }
	if err := ask(ctx, collector, http.MethodGet, "/ledger"+query, &answer); err != nil {
		return l, err
	}
	if len(answer.Destinations) != 1 {
		return l, fmt.Errorf("the ledger has %d destinations instead of one", len(answer.Destinations))
	}
	return answer.Destinations[0], nil
}

// ask asks the admin API of a collector.
func ask(ctx context.Context, collector, method, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, collector+"/api/v1"+path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(answer)
}
