// Command csvimport sends the rows of a CSV file as track calls. You can interrupt and resume the
// import.
//
//	go run ./examples/csvimport
//
// imports a sample file into a collector that it starts. Use -file, -endpoint and -write-key
// for your own data. The first line of the file names the columns: userId, event and timestamp
// are fields of the call, and the other columns become properties.
//
// FILE.progress contains the number of delivered rows. If the program is killed, it may send some
// rows again. A repeated row has the same messageId, so the collector stores it once.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// checkpoint is the number of rows between two writes of the progress file.
const checkpoint = 1000

func main() {
	if err := start(); err != nil {
		log.Fatal(err)
	}
}

// start parses the flags and runs the import. It starts a collector if -endpoint is not set.
func start() error {
	file := flag.String("file", "examples/csvimport/orders.csv", "CSV `file` to import")
	endpoint := flag.String("endpoint", "", "`URL` of the collector (default: start one)")
	writeKey := flag.String("write-key", "example", "write `key` of the source")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	notes := *file + ".progress"
	if *endpoint == "" {
		srv, err := mockserver.Run(mockserver.Config{})
		if err != nil {
			return err
		}
		defer func() { _ = srv.Close() }()
		*endpoint = srv.URL
		notes = filepath.Join(os.TempDir(), fmt.Sprintf("csvimport-%d.progress", os.Getpid())) // a new collector needs a new progress file
		defer func() { _ = os.Remove(notes) }()
	}
	sent, err := run(ctx, *file, notes, *endpoint, *writeKey, os.Stderr)
	fmt.Printf("%d calls delivered\n", sent)
	return err
}

// run imports the rows of a file that have not been delivered. The progress file notes contains the
// number of delivered rows. run returns the number of calls that it has delivered.
func run(ctx context.Context, file, notes, endpoint, writeKey string, progress io.Writer) (sent int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	done, err := readProgress(notes)
	if err != nil {
		return 0, err
	}
	client, err := analytics.NewWithConfig(writeKey, analytics.Config{
		Endpoint: endpoint, FlushAt: 500, Gzip: true,
		WhenFull: analytics.Block, // wait for the collector when the memory is full
	})
	if err != nil {
		return 0, err
	}
	i := &importer{client: client, rows: csv.NewReader(f), file: file, notes: notes, size: info.Size(), done: done, progress: progress}
	err = errors.Join(i.run(ctx), client.Close())
	return int(client.Stats().Delivered), err // Close has delivered the rows after the last checkpoint
}

type importer struct {
	client   *analytics.Client
	rows     *csv.Reader
	file     string
	notes    string // the path of the progress file
	size     int64  // the size of the CSV file in bytes
	done     int    // number of delivered rows
	progress io.Writer
}

func (i *importer) run(ctx context.Context) error {
	header, err := i.rows.Read()
	if err != nil {
		return fmt.Errorf("%s: the first line must contain the column names: %w", i.file, err)
	}
	for row := 1; ; row++ {
		fields, err := i.rows.Read()
		if err == io.EOF {
			return i.note(ctx, row-1)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", i.file, err)
		}
		if row <= i.done {
			continue // a previous run has delivered this row
		}
		if err := i.client.Enqueue(ctx, call(i.file, row, header, fields)); err != nil {
			return fmt.Errorf("%s: row %d: %w", i.file, row, err)
		}
		if row%checkpoint == 0 {
			if err := i.note(ctx, row); err != nil {
				return err
			}
		}
	}
}

// call returns the call for a row.
func call(file string, row int, header, fields []string) *analytics.Track {
	c := &analytics.Track{Properties: map[string]interface{}{}}
	for n, name := range header {
		switch name {
		case "userId":
			c.UserId = fields[n]
		case "event":
			c.Event = fields[n]
		case "timestamp":
			c.Timestamp = fields[n]
		default:
			c.Properties[name] = value(fields[n])
		}
	}
	sum := sha256.Sum256([]byte(file + "\x00" + strconv.Itoa(row) + "\x00" + strings.Join(fields, "\x00")))
	c.MessageId = "import-" + hex.EncodeToString(sum[:16])
	return c
}

// value converts s to a float64 if it is a number.
func value(s string) interface{} {
	if n, err := strconv.ParseFloat(s, 64); err == nil && strconv.FormatFloat(n, 'f', -1, 64) == s {
		return n
	}
	return s
}

// note waits until all rows up to row are delivered. Then it writes the progress file.
func (i *importer) note(ctx context.Context, row int) error {
	if row <= i.done {
		return nil
	}
	if err := i.client.Flush(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(i.notes, []byte(strconv.Itoa(row)+"\n"), 0o600); err != nil {
		return err
	}
	i.done = row
	const width = 40
	part := float64(i.rows.InputOffset()) / float64(max(i.size, 1))
	filled := int(part * width)
	_, err := fmt.Fprintf(i.progress, "\r[%s%s] %3.0f %%, %d rows ", strings.Repeat("#", filled), strings.Repeat(".", width-filled), 100*part, row)
	if part >= 1 {
		_, err = fmt.Fprintln(i.progress)
	}
	return err
}

// readProgress returns the number of rows that previous runs have delivered.
func readProgress(notes string) (int, error) {
	text, err := os.ReadFile(notes)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	done, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s must contain the number of delivered rows; delete it to start over: %w", notes, err)
	}
	return done, nil
}
