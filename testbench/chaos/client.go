package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/engine/sse"
	"plimsoll/testbench/load"
)

// spanning is how long after a fault what was under way may still come: the gap that it makes begins at the latest then.
const spanning = 150 * time.Millisecond

// stream is one request and what a client saw of it.
type stream struct {
	ask
	began, ended time.Duration
	replica      string // who answered, as the headers say
	legs         []told
	tokens       int // as usage says; -1: it did not
	err          error

	mu     sync.Mutex
	last   time.Duration // guarded by mu; of the last frame with text; 0: none came
	frames int           // guarded by mu
	hits   []*Hit        // guarded by mu; those whose gap is not known yet
}

// Hit is a stream that a fault struck.
type Hit struct {
	Fault   int           `json:"fault"`
	Stream  int           `json:"stream"`
	Giving  bool          `json:"giving"` // it had given text before
	Gap     time.Duration `json:"gap"`    // between the frames around the fault; 0: not known
	Bound   time.Duration `json:"bound"`  // what the gap may be; 0: it is not judged
	Prefill time.Duration `json:"prefill"`
	until   time.Duration // the last time at which the gap may begin
}

// hit notes that a fault strikes the stream's engine.
func (s *stream) hit(now time.Duration, h *Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Giving = s.last > 0
	h.until = now + spanning
	if h.Giving && s.class != Several && s.class != Whole {
		s.hits = append(s.hits, h)
	}
}

// produced is about how many tokens there are by now: one a frame.
func (s *stream) produced() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

// frame notes that text came.
func (s *stream) frame(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames++
	open := s.hits[:0]
	for _, h := range s.hits {
		h.Gap = max(h.Gap, now-s.last)
		if now <= h.until {
			open = append(open, h)
		}
	}
	s.hits, s.last = open, now
}

// client sends requests and reads answers.
type client struct {
	url  string
	http *http.Client
	now  func() time.Duration
	seen func() // is called for each frame with text
}

type chunk struct {
	Choices []struct {
		Index    int     `json:"index"`
		Text     string  `json:"text"`
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Tokens []string `json:"tokens"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage *struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// send sends a request and reads its answer to the end.
func (c *client) send(ctx context.Context, s *stream) {
	s.began, s.tokens = c.now(), -1
	s.legs = make([]told, s.ask.legs())
	s.err = c.exchange(ctx, s)
	s.ended = c.now()
}

func (c *client) exchange(ctx context.Context, s *stream) error {
	resp, err := c.post(ctx, s.body(), s.number)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	s.replica = resp.Header.Get(load.ReplicaHeader)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	if s.class == Whole {
		return c.whole(resp.Body, s)
	}
	texts := make([]strings.Builder, len(s.legs))
	defer func() {
		for i := range texts {
			s.legs[i].text = texts[i].String()
		}
	}()
	events := sse.NewReader(resp.Body, sse.DefaultLimits())
	for done := 0; ; {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF) && done == 1:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the stream ended with %d times [DONE]", done)
		case err != nil:
			return err
		case bytes.Equal(e.Data, []byte("[DONE]")):
			done++
			continue
		case done > 0:
			return errors.New("a frame came after [DONE]")
		}
		var f chunk
		if err := json.Unmarshal(e.Data, &f); err != nil {
			return fmt.Errorf("a frame is no JSON: %w", err)
		}
		if err := s.take(&f, texts); err != nil {
			return err
		}
		if len(f.Choices) > 0 && (f.Choices[0].Text != "" || f.Choices[0].Finish != nil) {
			s.frame(c.now())
			c.seen()
		}
	}
}

func (c *client) post(ctx context.Context, body []byte, number int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "chaos-"+strconv.Itoa(number))
	return c.http.Do(req)
}

// take adds a frame to the answer.
func (s *stream) take(f *chunk, texts []strings.Builder) error {
	if f.Error != nil {
		return fmt.Errorf("error event: %s", f.Error)
	}
	for _, choice := range f.Choices {
		if choice.Index < 0 || choice.Index >= len(s.legs) {
			return fmt.Errorf("there is no answer %d", choice.Index)
		}
		leg := &s.legs[choice.Index]
		if leg.finish != "" {
			return fmt.Errorf("answer %d goes on after its finish", choice.Index)
		}
		texts[choice.Index].WriteString(choice.Text)
		if choice.Finish != nil {
			leg.finish = *choice.Finish
		}
		if choice.Logprobs != nil {
			leg.logprobs += len(choice.Logprobs.Tokens)
		}
	}
	if f.Usage != nil {
		if s.tokens >= 0 {
			return errors.New("the usage came twice")
		}
		s.tokens = f.Usage.Completion
	}
	return nil
}

// whole reads an answer that is not streamed.
func (c *client) whole(body io.Reader, s *stream) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var f chunk
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	texts := make([]strings.Builder, len(s.legs))
	if err := s.take(&f, texts); err != nil {
		return err
	}
	for i := range texts {
		s.legs[i].text = texts[i].String()
	}
	return nil
}
