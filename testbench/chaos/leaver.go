package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll/engine/sse"
)

const (
	// Texts long enough that they take the tokenizer some milliseconds.
	textWords = 12_000
	// An answer that a leaver asks for is long enough not to end before it leaves.
	leaverOutput = 1200
	// takenNothing is how long a slow client takes nothing of an answer that comes before it leaves: with small buffers and
	// large frames long enough that Plimsoll's writes block.
	takenNothing = 1500 * time.Millisecond
	smallBuffer  = 4096
	leaverWithin = 20 * time.Second // to come to its phase
	cutEvery     = 150 * time.Millisecond
	// thinks is how long a client waits at most before it comes again.
	thinks = 150 * time.Millisecond
	// fewClients are at once where requests are long, so that the machine is not busy with them alone.
	fewClients = 8
)

// leaver is one client that is going to leave.
type leaver struct {
	phase Phase
	ask
	body []byte
	conn net.Conn

	mu     sync.Mutex
	frames int           // guarded by mu
	last   time.Duration // guarded by mu; of the last frame
	wake   chan struct{} // gets something when a frame came
}

// cancellations has clients leave in each phase in turn.
func (r *run) cancellations(ctx context.Context) error {
	c := *r.plan.Cancel
	for p := range NumPhases {
		r.enter("leaving: " + p.String())
		company, dismiss := context.WithCancel(ctx)
		var others sync.WaitGroup
		keep := func(n, output int) {
			for i := range n {
				others.Go(func() { r.company(company, rand.New(rand.NewPCG(r.plan.Seed, uint64(i))), output) }) //nolint:gosec // a count
			}
		}
		keep(c.Company, 20)
		switch p {
		case Queued:
			keep(r.plan.Fleet.Slots*r.plan.Fleet.Size(), leaverOutput)
			pause(ctx, 3*time.Second) // until they have all seats
		case Resume:
			others.Go(func() { r.cutting(company) })
		case Tokenizing, Prefill, Decode, SlowClient, NumPhases:
		}
		err := r.leave(ctx, p)
		dismiss()
		others.Wait()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// company keeps a stream open, for others to be in.
func (r *run) company(ctx context.Context, rng *rand.Rand, output int) {
	t := r.plan.Traffic
	t.OutputTokens = [2]int{output, output}
	for ctx.Err() == nil {
		s := r.newStream(rng, t)
		r.client.send(ctx, s)
		r.mu.Lock()
		delete(r.open, s.number)
		if s.err == nil || ctx.Err() == nil {
			r.streams = append(r.streams, s)
		}
		r.mu.Unlock()
		if s.err != nil {
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// cutting cuts off one engine after the other. What has given nothing yet is let be: two attempts in a row that add nothing end
// a request.
func (r *run) cutting(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		r.tracker.cut(i%len(r.fleet.engines), true)
		pause(ctx, cutEvery)
	}
}

// leave has as many clients leave in a phase as the plan wants.
func (r *run) leave(ctx context.Context, p Phase) error {
	c := *r.plan.Cancel
	clients := c.Clients
	switch p {
	case Tokenizing, Prefill:
		clients = min(clients, fewClients)
	case Queued, Decode, Resume, SlowClient, NumPhases:
	}
	phase, done := context.WithCancel(ctx)
	defer done()
	var all sync.WaitGroup
	var mu sync.Mutex
	left, failed := 0, 0
	var last error
	for i := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(r.plan.Seed+uint64(p), uint64(i))) //nolint:gosec // counts
			for phase.Err() == nil {
				pause(phase, time.Duration(rng.Int64N(int64(thinks))))
				ok, err := r.leaveOnce(phase, rng, p)
				mu.Lock()
				if err != nil {
					failed, last = failed+1, err
				} else if ok {
					left++
				}
				if left >= c.quota() || failed > c.quota() {
					done()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if left < c.quota() && ctx.Err() == nil {
		return fmt.Errorf("chaos: only %d clients left in phase %s: %w", left, p, last)
	}
	return nil
}

// leaveOnce sends a request and leaves. False: it was not in its phase any more.
func (r *run) leaveOnce(ctx context.Context, rng *rand.Rand, p Phase) (bool, error) {
	l := r.newLeaver(rng, p)
	defer r.tracker.forget(l.number)
	ctx, cancel := context.WithTimeout(ctx, leaverWithin)
	defer cancel()
	if err := l.send(ctx, r.client.url); err != nil {
		return false, err
	}
	var reader sync.WaitGroup
	if p != SlowClient {
		reader.Go(func() { l.read(r.now) })
	}
	r.await(ctx, rng, l)
	attempts := r.tracker.request(l.number)
	l.mu.Lock()
	at, ok := phaseOf(p, attempts, l.frames, l.last)
	l.mu.Unlock()
	leave := Leave{Request: l.number, Phase: at, At: r.now()}
	_ = l.conn.Close() // that is what it is about
	reader.Wait()
	if ok && ctx.Err() == nil {
		r.mu.Lock()
		r.leaves = append(r.leaves, leave)
		r.mu.Unlock()
	}
	return ok && at == p, ctx.Err()
}

func (r *run) newLeaver(rng *rand.Rand, p Phase) *leaver {
	t := r.plan.Traffic
	t.Mix = map[Class]int{Greedy: 1}
	t.OutputTokens = [2]int{leaverOutput, leaverOutput}
	if p == Prefill {
		t.PromptTokens = [2]int{3000, 6000}
	}
	l := &leaver{phase: p, ask: newAsk(rng, t, r.number()), wake: make(chan struct{}, 1)}
	l.body = l.ask.body()
	switch p {
	case Tokenizing:
		l.body = textBody(rng, l.number)
	case SlowClient: // large frames
		l.body = append(l.body[:len(l.body)-1], `,"logprobs":5}`...)
	case Queued, Prefill, Decode, Resume, NumPhases:
	}
	return l
}

// textBody is a request whose prompt is a text that was never seen.
func textBody(rng *rand.Rand, number int) []byte {
	var b strings.Builder
	for range textWords {
		n := rng.Uint64()
		for range 2 + n%6 {
			n = n/7 + n>>5
			_ = b.WriteByte('a' + byte(n%26))
		}
		_ = b.WriteByte(' ')
	}
	body, err := json.Marshal(map[string]any{"prompt": b.String(), "max_tokens": leaverOutput, "ignore_eos": true, "stream": true, "seed": seedTag + number})
	if err != nil {
		panic(err) // letters and numbers
	}
	return body
}

// send sends the request on a connection of its own.
func (l *leaver) send(ctx context.Context, front string) error {
	u, err := url.Parse(front)
	if err != nil {
		return err
	}
	var d net.Dialer
	if l.phase == SlowClient {
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var wrong error
			err := c.Control(func(fd uintptr) {
				wrong = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, smallBuffer)
			})
			if err != nil {
				return err
			}
			return wrong
		}
	}
	if l.conn, err = d.DialContext(ctx, "tcp", u.Host); err != nil {
		return err
	}
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Request-Id: chaos-%d\r\nContent-Length: %d\r\n\r\n",
		u.Host, l.number, len(l.body))
	_, _ = b.Write(l.body)
	if _, err := l.conn.Write(b.Bytes()); err != nil {
		_ = l.conn.Close()
		return err
	}
	return nil
}

// read counts frames until the connection ends.
func (l *leaver) read(now func() time.Duration) {
	resp, err := http.ReadResponse(bufio.NewReader(l.conn), nil)
	if err != nil {
		return
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	if resp.StatusCode != http.StatusOK {
		return
	}
	events := sse.NewReader(resp.Body, sse.DefaultLimits())
	for {
		if _, err := events.Next(); err != nil {
			return
		}
		l.mu.Lock()
		l.frames++
		l.last = now()
		l.mu.Unlock()
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// await returns when the client is to leave: somewhere in its phase.
func (r *run) await(ctx context.Context, rng *rand.Rand, l *leaver) {
	some := func(most time.Duration) { pause(ctx, time.Duration(rng.Int64N(int64(most)))) }
	switch l.phase {
	case Tokenizing:
		pause(ctx, 2*time.Millisecond)
		some(15 * time.Millisecond)
	case Queued:
		pause(ctx, 20*time.Millisecond)
		some(60 * time.Millisecond)
	case Prefill:
		r.until(ctx, l, func(a []Attempt) bool { return len(a) > 0 })
		some(80 * time.Millisecond)
	case Decode:
		for n := 1 + rng.IntN(10); n > 0; n-- {
			select {
			case <-l.wake:
			case <-ctx.Done():
				return
			}
		}
		some(30 * time.Millisecond)
	case Resume:
		r.until(ctx, l, func(a []Attempt) bool {
			broken := false
			for i := range a {
				broken = broken || a[i].End == EndBroken
			}
			return broken || len(a) > 0 && a[len(a)-1].End == EndWhole
		})
		some(40 * time.Millisecond)
	case SlowClient:
		r.until(ctx, l, func(a []Attempt) bool { return len(a) > 0 && a[len(a)-1].First > 0 })
		pause(ctx, takenNothing)
		some(200 * time.Millisecond)
	case NumPhases:
	}
}

// until waits for what becomes of a request's attempts.
func (r *run) until(ctx context.Context, l *leaver, enough func([]Attempt) bool) {
	for {
		attempts, changed := r.tracker.watch(l.number)
		if enough(attempts) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
