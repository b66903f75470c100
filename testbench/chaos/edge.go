package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"plimsoll/actors/admin"
	"plimsoll/engine/wire"
)

// edgeReport is what the operators' edge says of all replicas.
type edgeReport struct {
	Replicas []admin.Replica `json:"replicas"`
}

// ready counts the replicas that serve.
func (r edgeReport) ready() int {
	n := 0
	for i := range r.Replicas {
		if r.Replicas[i].State == "ready" {
			n++
		}
	}
	return n
}

// of finds a replica by its name.
func (r edgeReport) of(name string) *admin.Replica {
	for i := range r.Replicas {
		if r.Replicas[i].Name == name {
			return &r.Replicas[i]
		}
	}
	return nil
}

// left is what is still booked.
type left struct {
	Blocks    int `json:"blocks"`
	Seats     int `json:"seats"`
	Reserved  int `json:"reserved"`
	Lingering int `json:"lingering"`
	Queued    int `json:"queued"`
	Open      int `json:"open"`
}

func (f *fleet) report(ctx context.Context) (edgeReport, error) {
	body, err := f.get(ctx, f.admin+"/admin/replicas")
	if err != nil {
		return edgeReport{}, err
	}
	var r edgeReport
	return r, json.Unmarshal(body, &r)
}

func (f *fleet) metrics(ctx context.Context) (wire.Metrics, error) {
	body, err := f.get(ctx, f.admin+"/metrics")
	if err != nil {
		return wire.Metrics{}, err
	}
	return wire.ParseMetrics(body)
}

func (f *fleet) get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("chaos: %s: status %d", url, resp.StatusCode)
	}
	return body, err
}

// total adds up all samples of a metric.
func total(m wire.Metrics, name string) float64 {
	sum := 0.0
	for _, s := range m.Series(name) {
		if v, ok := (wire.Series{s}).Number(); ok {
			sum += v
		}
	}
	return sum
}

// left asks what is still booked and waiting.
func (f *fleet) left(ctx context.Context) (left, error) {
	r, err := f.report(ctx)
	if err != nil {
		return left{}, err
	}
	m, err := f.metrics(ctx)
	if err != nil {
		return left{}, err
	}
	l := left{
		Queued: int(total(m, "plimsoll_router_queued_requests") + total(m, "plimsoll_tokenizer_queued_requests")),
		Open:   int(total(m, "plimsoll_ingress_open_requests")),
	}
	for i := range r.Replicas {
		load := r.Replicas[i].Load
		l.Blocks += load.BookedBlocks
		l.Seats += load.SeatsBooked
		l.Reserved += load.Reserved + load.Running
		l.Lingering += load.Lingering
	}
	return l, nil
}
