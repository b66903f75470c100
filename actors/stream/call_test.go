package stream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring/ledger"
)

type emitter = func(engine.Event) error

// says returns a Generate that sends a text, a token each pause, and its end.
func says(text string, pause time.Duration) func(context.Context, engine.Request, emitter) error {
	return func(ctx context.Context, _ engine.Request, emit emitter) error {
		for i := range len(text) {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := emit(engine.Event{Tokens: []engine.Token{{ID: uint32(text[i])}}}); err != nil {
				return err
			}
		}
		return emit(engine.Event{Finish: &engine.Finish{Reason: engine.FinishStop}})
	}
}

// hangs returns a Generate that sends a text at once and then does not even hear of an abort until it is let go.
func hangs(text string, letGo <-chan struct{}) func(context.Context, engine.Request, emitter) error {
	return func(ctx context.Context, _ engine.Request, emit emitter) error {
		for i := range len(text) {
			if err := emit(engine.Event{Tokens: []engine.Token{{ID: uint32(text[i])}}}); err != nil {
				return err
			}
		}
		<-letGo
		return ctx.Err()
	}
}

func fails(kind engine.FailKind) func(context.Context, engine.Request, emitter) error {
	return func(context.Context, engine.Request, emitter) error { return failure(kind) }
}

// readAll takes a response to its end.
func readAll(ctx context.Context, r *Response) (string, error) {
	var text strings.Builder
	for {
		d, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		for _, e := range d.Entries {
			text.WriteString(e.Text)
		}
		if d.Finish != nil {
			text.WriteString(d.Finish.Text)
		}
	}
}

func kindOf(err error) fault.Kind { return fault.Of(err).Kind }

var confirms = engine.Capabilities{ConfirmsAbort: true}

func TestARequestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Millisecond)})
		r := n.submit(&Request{})
		text, err := readAll(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, "hello", text)
		require.Equal(t, Usage{PromptTokens: 3, CompletionTokens: 5}, r.Usage())
		require.Equal(t, []string{"a"}, r.Replicas())
		n.quiet()
		require.Len(t, n.ended, 1)
		require.Equal(t, Summary{
			Request: n.ended[0].Request, Usage: r.Usage(), Replicas: []string{"a"}, Attempts: 1,
			Legs: []LegSummary{{Prompt: []uint32{1, 2, 3}, Answer: []uint32{'h', 'e', 'l', 'l', 'o'}, PromptTokens: 3, OutputTokens: 5}},
		}, n.ended[0])
		_, err = r.Next(t.Context())
		require.ErrorIs(t, err, io.EOF, "again")
		r.Cancel() // of what is over
		n.quiet()
		n.close()
	})
}

func TestARequestIsRoutedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{generate: fails(engine.Refused)}, &script{generate: fails(engine.Shed)}, &script{generate: says("hello", 0)})
		text, err := readAll(t.Context(), n.submit(&Request{}))
		require.NoError(t, err)
		require.Equal(t, "hello", text)
		n.quiet()
		require.Equal(t, 3, n.ended[0].Attempts)
		require.Equal(t, []string{"c"}, n.ended[0].Replicas)
		n.close()
	})
}

// TestASlowReaderHoldsNothingUp: the engine gets rid of its whole answer, and of its ticket, before the client reads.
func TestASlowReaderHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := make([]byte, 4000)
		for i := range long {
			long[i] = 'a' + byte(i%26)
		}
		n := newNode(t, &script{caps: confirms, generate: says(string(long), 0)})
		r := n.submit(&Request{})
		time.Sleep(time.Second) // virtual
		n.quiet()
		d, err := r.Next(t.Context())
		require.NoError(t, err)
		require.Len(t, d.Entries, 4000)
		require.NotNil(t, d.Finish)
		_, err = r.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
		n.close()
	})
}

func TestAReaderThatIsTooSlowIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &script{caps: confirms, generate: says("hello, this is too long for you", time.Millisecond)}
		n := newNode(t, e)
		n.cfg.JournalBytes = 10 * (&Entry{Text: "x"}).Bytes()
		r := n.submit(&Request{})
		time.Sleep(time.Second) // virtual
		n.quiet()
		require.Zero(t, e.running.Load())
		require.Equal(t, 11, r.Usage().CompletionTokens, "the token past the bound is the last")
		require.Empty(t, r.legs[0].entries, "nothing is kept for it")
		_, err := readAll(t.Context(), r)
		require.Equal(t, fault.SlowReader, kindOf(err))
		require.Contains(t, err.Error(), "too slowly")
		n.close()
	})
}

// TestLeaving: wherever a client leaves, its request is gone at once.
func TestLeaving(t *testing.T) {
	for _, caps := range []engine.Capabilities{confirms, {LingerBound: 3 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			e := &script{caps: caps, generate: says("hello", time.Second)}
			n := newNode(t, e)
			for _, after := range []time.Duration{0, time.Microsecond, 500 * time.Millisecond, 1500 * time.Millisecond} {
				r := n.submit(&Request{N: 2})
				time.Sleep(after) // virtual
				r.Cancel()
				_, err := readAll(t.Context(), r)
				require.Equal(t, fault.ClientGone, kindOf(err))
				synctest.Wait()
				require.Zero(t, n.live.Len())
				require.Zero(t, e.running.Load(), "the engine was told")
				if !caps.ConfirmsAbort {
					if after > 0 { // at once it may or may not have been placed
						require.Equal(t, 2, n.load(0).Lingering)
						require.Positive(t, n.load(0).BookedBlocks)
					}
					time.Sleep(3*time.Second + 100*time.Millisecond) // virtual: the bound, and a probe
				}
				n.quiet()
			}
			require.Len(t, n.ended, 4)
			n.close()
		})
	}
}

// TestAHungEngineHoldsNoCall: the client leaves, and so does its call; what the engine holds stays booked until it lets go.
func TestAHungEngineHoldsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		n := newNode(t, &script{caps: confirms, generate: hangs("he", letGo)})
		r := n.submit(&Request{N: 2})
		synctest.Wait()
		_, err := r.Next(t.Context())
		require.NoError(t, err)
		r.Cancel()
		synctest.Wait()
		require.Zero(t, n.live.Len())
		require.Equal(t, 2, n.live.Strays())
		require.NoError(t, n.live.Drained(t.Context()))
		require.Len(t, n.ended, 1)
		require.Equal(t, fault.ClientGone, n.ended[0].Fault.Kind)
		time.Sleep(10 * time.Minute) // virtual
		require.Equal(t, 2, n.load(0).Lingering)
		require.Positive(t, n.load(0).BookedBlocks)

		// A restart of the replica's actor does not forget them.
		n.system.Root.Send(n.pids[0], bomb{})
		time.Sleep(10 * time.Second) // virtual
		require.Equal(t, uint64(2), n.refs[0].Snapshot().Epoch)
		require.False(t, n.refs[0].Snapshot().Recovering)
		require.Equal(t, 2, n.load(0).Lingering)
		require.Positive(t, n.load(0).BookedBlocks)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, n.live.Wait(ctx), context.DeadlineExceeded)
		close(letGo)
		n.quiet()
		n.close()
	})
}

// TestAHungEngineLosesItsRequest: another replica answers, and the call does not wait for the one that hangs.
func TestAHungEngineLosesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		n := newNode(t, &script{caps: confirms, generate: hangs("", letGo)}, &script{caps: confirms, generate: says("hello", 0)})
		text, err := readAll(t.Context(), n.submit(&Request{}))
		require.NoError(t, err)
		require.Equal(t, "hello", text)
		synctest.Wait()
		require.Zero(t, n.live.Len())
		require.Equal(t, 1, n.live.Strays())
		require.Equal(t, 1, n.load(0).Lingering)
		close(letGo)
		n.quiet()
		n.close()
	})
}

// TestAnEngineThatNeverSaysFinish is left after the settle time; the client has its answer long before.
func TestAnEngineThatNeverSaysFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		n := newNode(t, &script{caps: confirms, generate: func(ctx context.Context, req engine.Request, emit emitter) error {
			_ = emit(engine.Event{Tokens: []engine.Token{{ID: 'x'}, {ID: idEOS}}})
			return hangs("", letGo)(ctx, req, emit)
		}})
		began := time.Now()
		text, err := readAll(t.Context(), n.submit(&Request{}))
		require.NoError(t, err)
		require.Equal(t, "x", text)
		require.Less(t, time.Since(began), n.cfg.SettleTimeout)
		synctest.Wait()
		require.Equal(t, 1, n.live.Len())
		require.NoError(t, n.live.Drained(t.Context()))
		require.Equal(t, n.cfg.SettleTimeout, time.Since(began))
		require.Equal(t, 1, n.live.Strays())
		close(letGo)
		n.quiet()
		n.close()
	})
}

// TestPanics: whatever breaks, breaks one request, gives back its tickets and leaves no goroutine.
func TestPanics(t *testing.T) {
	bystander := says("a bystander", 100*time.Millisecond)
	for _, c := range []struct {
		name     string
		generate func(context.Context, engine.Request, emitter) error
		fault    fault.Kind
	}{
		{
			"decoder, at the first token", func(ctx context.Context, _ engine.Request, emit emitter) error {
				return errors.Join(emit(engine.Event{Tokens: []engine.Token{{ID: idBomb}}}), says("more", time.Millisecond)(ctx, engine.Request{}, emit))
			}, fault.Internal,
		},
		{
			"decoder, later, as the engine ends", func(_ context.Context, _ engine.Request, emit emitter) error {
				_ = emit(engine.Event{Tokens: []engine.Token{{ID: 'x'}}})
				return emit(engine.Event{Tokens: []engine.Token{{ID: idBomb}}, Finish: &engine.Finish{}})
			}, fault.Internal,
		},
		{
			"decoder, while the engine hangs", func(ctx context.Context, _ engine.Request, emit emitter) error {
				_ = emit(engine.Event{Tokens: []engine.Token{{ID: idBomb}}})
				time.Sleep(time.Minute)
				return ctx.Err()
			}, fault.Internal,
		},
		{
			"adapter, at once", func(context.Context, engine.Request, emitter) error { panic("a bomb in the adapter") }, fault.EngineFailed,
		},
		{
			"adapter, after a token", func(_ context.Context, _ engine.Request, emit emitter) error {
				_ = emit(engine.Event{Tokens: []engine.Token{{ID: 'x'}}})
				panic("a bomb in the adapter")
			}, fault.EngineFailed,
		},
	} {
		for _, caps := range []engine.Capabilities{confirms, {LingerBound: time.Second}} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, &script{caps: caps, generate: func(ctx context.Context, req engine.Request, emit emitter) error {
						if req.MinTokens == 1 {
							return bystander(ctx, req, emit)
						}
						return c.generate(ctx, req, emit)
					}})
					other := n.submit(&Request{MinTokens: 1})
					_, err := readAll(t.Context(), n.submit(&Request{N: 2}))
					require.Equal(t, c.fault, kindOf(err))
					text, err := readAll(t.Context(), other)
					require.NoError(t, err)
					require.Equal(t, "a bystander", text)
					time.Sleep(2 * time.Minute) // virtual
					n.quiet()
					require.Len(t, n.ended, 2)
					require.Equal(t, c.fault, n.ended[0].Fault.Kind)
					n.close()
				})
			})
		}
	}
}

// held reserves a ticket on a replica as a router would.
func (n *node) held(number uint64, leg int) Placement {
	ref := n.refs[0]
	claim := ledger.Plan{PromptTokens: 3, MaxOutputTokens: 100, OutputTokens: 16}.Claim(ref.Snapshot().Load.Limits)
	claim.Ticket.Boot, claim.Ticket.Number = 2, number
	ref.Tell(&fleet.Reserve{Claim: claim, Incarnation: ref.Snapshot().Incarnation, From: n.router})
	synctest.Wait()
	return Placement{Leg: leg, Claim: claim, Ref: ref, Incarnation: 1, Epoch: ref.Snapshot().Epoch, BlockTokens: 16, MaxTokens: 100}
}

// TestAPlaceThatBreaksTheMachineIsGivenBack, and what waits behind it too.
func TestAPlaceThatBreaksTheMachineIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", time.Second)})
		var call *Call
		n.deps.Router = func(message any) {
			if s, ok := message.(*Submit); ok {
				call = s.Call
			}
		}
		r := n.submit(&Request{})
		synctest.Wait()
		breaks := Placed{Number: 1, Placements: []Placement{n.held(1, 0), n.held(2, 5)}} // there is no leg 5
		behind := Placed{Number: 9, Placements: []Placement{n.held(3, 0)}}
		require.Equal(t, 3, n.load(0).Reserved)
		call.Tell(Encoded{Prompts: []Prompt{{IDs: []uint32{1, 2, 3}}}})
		call.Tell(breaks)
		call.Tell(behind)
		_, err := readAll(t.Context(), r)
		require.Equal(t, fault.Internal, kindOf(err))
		n.quiet()
		// Nor is anything lost that comes later.
		call.Tell(Placed{Number: 1, Placements: []Placement{n.held(4, 0)}})
		n.quiet()
		n.close()
	})
}

// TestTellAfterTheEnd: what comes for a call that is over is answered for it.
func TestTellAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", 0)})
		var call *Call
		route := n.deps.Router
		n.deps.Router = func(message any) {
			if s, ok := message.(*Submit); ok {
				call = s.Call
			}
			route(message)
		}
		_, err := readAll(t.Context(), n.submit(&Request{}))
		require.NoError(t, err)
		n.quiet()
		call.Tell(Placed{Number: 1, Placements: []Placement{n.held(1, 0), n.held(2, 0)}})
		call.Tell(Rejected{Number: 1, Fault: fault.New(fault.NoReplica, "none")})
		call.Tell(RouterRestarted{})
		call.Tell(ReplicaRestarted{Ref: n.refs[0], Epoch: 9})
		n.quiet()
		n.close()
	})
}

func TestAReportThatBreaksHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", 0)})
		n.deps.Ended = func(Summary) { panic("a bomb in the report") }
		text, err := readAll(t.Context(), n.submit(&Request{}))
		require.NoError(t, err)
		require.Equal(t, "hello", text)
		n.quiet()
		n.close()
	})
}

// TestRestartedReplicaHearsOfEveryTicket while requests run on it.
func TestRestartedReplicaHearsOfEveryTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &script{caps: confirms, generate: says("hello", 10*time.Second)})
		var all []*Response
		for range 3 {
			all = append(all, n.submit(&Request{N: 2}))
		}
		time.Sleep(time.Second) // virtual
		before := n.load(0)
		require.Equal(t, 6, before.Reserved)
		n.system.Root.Send(n.pids[0], bomb{})
		time.Sleep(5 * time.Second) // virtual
		require.Equal(t, uint64(2), n.refs[0].Snapshot().Epoch)
		require.Equal(t, before.BookedBlocks, n.load(0).BookedBlocks)
		require.Equal(t, 6, n.load(0).Reserved)
		for _, r := range all {
			text, err := readAll(t.Context(), r)
			require.NoError(t, err)
			require.Len(t, text, 10)
		}
		n.quiet()
		n.close()
	})
}

// TestCrowd runs many requests that end in every way at once.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 600
		rng := rand.New(rand.NewPCG(1, 2))
		odd := func(ctx context.Context, req engine.Request, emit emitter) error {
			switch req.MinTokens {
			case 1:
				return failure(engine.Refused)
			case 2:
				panic("a bomb in the adapter")
			case 3:
				_ = emit(engine.Event{Tokens: []engine.Token{{ID: 'x'}}})
				return failure(engine.Broken)
			case 4:
				return emit(engine.Event{Tokens: []engine.Token{{ID: 'a'}, {ID: 'b'}, {ID: 'c'}, {ID: 'd'}, {ID: idBomb}}})
			case 5: // slow to let go
				<-ctx.Done()
				time.Sleep(50 * time.Millisecond)
				return ctx.Err()
			}
			return says("hello, world", time.Millisecond)(ctx, req, emit)
		}
		n := newNode(t, &script{caps: confirms, generate: odd}, &script{caps: engine.Capabilities{LingerBound: time.Second}, generate: odd})
		kinds := make(chan string, crowd)
		for range crowd {
			req := &Request{N: 1 + rng.IntN(2), MinTokens: rng.IntN(12), Stop: []string{"wor"}}
			leave := time.Duration(rng.IntN(40)) * time.Millisecond
			r := n.submit(req)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), leave)
				defer cancel()
				_, err := readAll(ctx, r)
				switch {
				case err == nil:
					kinds <- "well"
				case ctx.Err() != nil:
					kinds <- "left"
				default:
					kinds <- kindOf(err).String()
				}
				r.Cancel()
			}()
			time.Sleep(time.Duration(rng.IntN(8)) * time.Millisecond) // virtual
		}
		time.Sleep(time.Hour) // virtual
		n.quiet()
		got := map[string]int{}
		for range crowd {
			got[<-kinds]++
		}
		t.Log(got)
		require.Len(t, n.ended, crowd)
		for _, what := range []string{"well", "left", "internal", "engine_failed", "contended"} {
			require.GreaterOrEqual(t, got[what], 10, what)
		}
		n.close()
	})
}
