package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"plimsoll/engine/sse"
)

// Call is one request to send.
type Call struct {
	At   time.Duration // after the start
	Body func() []byte // a streaming request that asks for usage; made when it is sent, from its own goroutine
	// Header is sent beside what every call has; nil: nothing is.
	Header http.Header
}

// Config says where calls go, and how many at once.
type Config struct {
	URL         string        // of the route, such as http://127.0.0.1:8080/v1/completions
	InFlightMax int           // calls under way
	Timeout     time.Duration // of one call, from when it is sent
	Header      http.Header   // goes with every call, beside its content type; nil: nothing does
	// Ended hears of the end of every call, from its goroutine or Run's; nil: nobody does.
	Ended func(*Sample)
}

// Sample is what became of a call. Times count from the start of the run.
type Sample struct {
	At          time.Duration // when it was due
	Sent        time.Duration
	First, Last time.Duration // when the first and the last token came
	Status      int
	Replica     string // who answered, if the server says so
	Finish      string

	PromptTokens     int
	CachedTokens     int // of the prompt, found in the engine's cache
	CompletionTokens int
	Err              error // why there is no whole answer
	Cut              bool  // that is the end of the run's context, and nobody's fault

	// Of an answer that is no success: its Retry-After, "" if there is none, and the first KiB of its body.
	RetryAfter string
	Refusal    []byte
}

// TTFT is the time to the first token, from when the call was due.
func (s *Sample) TTFT() time.Duration { return s.First - s.At }

// TPOT is the time per output token after the first; false if there were not two.
func (s *Sample) TPOT() (time.Duration, bool) {
	if s.CompletionTokens < 2 {
		return 0, false
	}
	return (s.Last - s.First) / time.Duration(s.CompletionTokens-1), true
}

// ReplicaHeader is the header that names who answered.
const ReplicaHeader = "X-Plimsoll-Replica"

// Run sends all calls, which are in order of their times, and returns a sample for each when the last one has ended. If ctx
// ends first, what has not ended is cut.
func Run(ctx context.Context, cfg Config, client *http.Client, calls []Call) ([]Sample, error) {
	if cfg.InFlightMax < 1 || cfg.Timeout <= 0 {
		return nil, fmt.Errorf("load: InFlightMax (%d) and Timeout (%s) must be above 0", cfg.InFlightMax, cfg.Timeout)
	}
	r := &run{cfg: cfg, client: client, began: time.Now()}
	samples := make([]Sample, len(calls))
	places := make(chan struct{}, cfg.InFlightMax)
	var underWay sync.WaitGroup
	for i, call := range calls {
		s := &samples[i]
		s.At = call.At
		if s.Err = r.due(ctx, call.At, places); s.Err != nil {
			s.Cut = true
			r.ended(s)
			continue
		}
		underWay.Go(func() {
			defer func() { <-places }()
			r.call(ctx, call, s)
			s.Cut = s.Err != nil && ctx.Err() != nil
			r.ended(s)
		})
	}
	underWay.Wait()
	return samples, nil
}

// run is one run.
type run struct {
	cfg    Config
	client *http.Client
	began  time.Time
}

func (r *run) ended(s *Sample) {
	if r.cfg.Ended != nil {
		r.cfg.Ended(s)
	}
}

// due waits until a call's time has come and a place is free, which is the caller's then.
func (r *run) due(ctx context.Context, at time.Duration, places chan<- struct{}) error {
	timer := time.NewTimer(at - time.Since(r.began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call sends one request and reads its stream.
func (r *run) call(ctx context.Context, c Call, s *Sample) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	body := c.Body()
	s.Sent = time.Since(r.began)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cfg.URL, bytes.NewReader(body))
	if err != nil {
		s.Err = err
		return
	}
	for _, header := range []http.Header{r.cfg.Header, c.Header} {
		for name, values := range header {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		s.Err = err
		return
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	s.Status, s.Replica = resp.StatusCode, resp.Header.Get(ReplicaHeader)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
		s.RetryAfter, s.Refusal = resp.Header.Get("Retry-After"), text
		s.Err = fmt.Errorf("status %d: %s", resp.StatusCode, text)
		return
	}
	s.Err = r.read(resp.Body, s)
}

// frame is what a stream's frame says, of completions and chats.
type frame struct {
	Choices []struct {
		Finish *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error json.RawMessage
}

// read takes a stream to its end. It is whole if every choice finished, the usage came and no error did.
func (r *run) read(body io.Reader, s *Sample) error {
	events := sse.NewReader(body, sse.DefaultLimits())
	counted := false
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			if s.Finish == "" || !counted {
				return errors.New("the stream ended without a finish and its usage")
			}
			return nil
		case err != nil:
			return err
		case bytes.Equal(e.Data, []byte("[DONE]")):
			continue
		}
		var f frame
		if err := json.Unmarshal(e.Data, &f); err != nil {
			return fmt.Errorf("a frame is no JSON: %w", err)
		}
		if f.Error != nil {
			return fmt.Errorf("error frame: %s", f.Error)
		}
		if len(f.Choices) > 0 {
			s.Last = time.Since(r.began)
			if s.First == 0 {
				s.First = s.Last
			}
			if f.Choices[0].Finish != nil {
				s.Finish = *f.Choices[0].Finish
			}
		}
		if f.Usage != nil {
			counted = true
			s.PromptTokens, s.CompletionTokens = f.Usage.Prompt, f.Usage.Completion
			if f.Usage.Details != nil {
				s.CachedTokens = f.Usage.Details.Cached
			}
		}
	}
}
