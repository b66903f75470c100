package actors

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/tokenizer/simmodel"
)

// tokensRequest asks for the continuation of token IDs that every test's model knows.
func tokensRequest(prompt []uint32, maxTokens int) *stream.Request {
	return &stream.Request{
		ID: "test", Model: simmodel.Name, Arrival: time.Now(), N: 1, MaxTokens: &maxTokens, IgnoreEOS: true,
		Input: stream.Input{Tokens: [][]uint32{prompt}},
	}
}

// randomPrompt is a prompt of its own for each generator.
func randomPrompt(rng *rand.Rand, tokens int) []uint32 {
	ids := make([]uint32, tokens)
	for i := range ids {
		ids[i] = 300 + rng.Uint32N(200)
	}
	return ids
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 5)) }

// TestWhatNeverFits is refused at once, with the numbers, however busy the fleet is.
func TestWhatNeverFits(t *testing.T) {
	f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 1})
	a := readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(newRand(1), 2048), 1)), 1)
	flt := fault.Of(a.err)
	require.Equal(t, fault.ContextLength, flt.Kind)
	require.Contains(t, flt.Message, "maximum context length is 2048 tokens, but the prompt has 2048")
	require.Equal(t, "prompt", flt.Param)

	a = readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(newRand(1), 2047), 100)), 1)
	require.NoError(t, a.err)
	require.Equal(t, 1, a.usage.CompletionTokens, "max_tokens beyond the room is clamped, as engines do")
	f.quiet(t)
}

// TestContentionEndsInTime: a full fleet makes a request wait; then it is refused and told when to come back.
// In a bubble, where no engine is slow to be given what fills the fleet.
func TestContentionEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 1, adjust: func(c *Config) {
			c.Models[0].Router.QueueTimeout = 30 * time.Millisecond
		}})
		for _, e := range f.engines {
			e.Pause()
		}
		var running []*stream.Response
		for i := range 2 * sim.TinyConfig().Seats {
			running = append(running, f.Submit(tokensRequest(randomPrompt(newRand(uint64(i)), 100), 16))) //nolint:gosec // a count
		}
		require.Eventually(t, func() bool {
			seats := 0
			for _, s := range f.Snapshots() {
				seats += s.Load.SeatsBooked
			}
			return seats == len(running)
		}, time.Minute, time.Millisecond)
		flt := fault.Of(readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(newRand(99), 100), 16)), 1).err)
		require.Equal(t, fault.Contended, flt.Kind)
		require.GreaterOrEqual(t, flt.RetryAfter, time.Second)
		for _, e := range f.engines {
			e.Resume()
		}
		for _, r := range running {
			require.NoError(t, readAll(t.Context(), r, 1).err, "what was admitted goes on")
		}
		f.quiet(t)
	})
}

// TestReplicasDeadAtStart come up by themselves when their engines do.
func TestReplicasDeadAtStart(t *testing.T) {
	var engines []*live.Engine
	var refused atomic.Int32
	// The engines start when each has been found dead twice.
	revive := sync.OnceFunc(func() {
		go func() {
			for _, e := range engines {
				e.Start()
			}
		}()
	})
	f := startFleet(t, fleetConfig{
		replicas: 3, profile: sim.TinyConfig(), speed: 1,
		adjust: func(c *Config) {
			for _, r := range c.Models[0].Replicas {
				e, ok := r.Engine.(*live.Engine)
				require.True(t, ok)
				e.Kill()
				engines = append(engines, e)
			}
		},
		middleware: func(string) actor.ReceiverMiddleware {
			return func(next actor.ReceiverFunc) actor.ReceiverFunc {
				return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
					if _, ok := env.Message.(replica.ProbeFailed); ok && refused.Add(1) >= 6 {
						revive()
					}
					next(c, env)
				}
			}
		},
	})
	require.GreaterOrEqual(t, refused.Load(), int32(6))
	require.NoError(t, readAll(t.Context(), f.Submit(chatRequest("hello", 8)), 1).err)

	// All die: nobody serves, at once. They come back: it goes on.
	for _, e := range engines {
		e.Kill()
	}
	require.Eventually(t, func() bool { return !f.Health().Ready }, time.Minute, time.Millisecond)
	flt := fault.Of(readAll(t.Context(), f.Submit(chatRequest("hello", 8)), 1).err)
	require.Equal(t, fault.NoReplica, flt.Kind)
	require.Positive(t, flt.RetryAfter)
	for _, e := range engines {
		e.Start()
	}
	require.Eventually(t, func() bool { return f.Health().Ready }, time.Minute, time.Millisecond)
	require.NoError(t, readAll(t.Context(), f.Submit(chatRequest("hello", 8)), 1).err)
	for _, s := range f.Snapshots() {
		require.Eventually(t, func() bool { // each is a new life
			i := slices.IndexFunc(f.Snapshots(), func(o *fleet.Snapshot) bool { return o.ID == s.ID })
			return f.Snapshots()[i].Incarnation >= 2
		}, time.Minute, time.Millisecond)
	}
	f.quiet(t)
}

// TestCoverUnderOverload: far more is asked than fits. In both modes the engines never hold a block that is not booked; in
// strict mode they never preempt. It runs in a bubble, where all that is on its way arrives before time goes on.
func TestCoverUnderOverload(t *testing.T) {
	for _, admission := range []router.Admission{router.Strict, router.Expected} {
		t.Run(admission.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				profile := sim.TinyConfig()
				profile.Seats = 32 // blocks are what is short
				f := startFleet(t, fleetConfig{replicas: 3, profile: profile, speed: 1, adjust: func(c *Config) {
					c.Models[0].Router.Admission = admission
					c.Models[0].Router.DefaultMaxTokens = 256
				}})
				ended := make(chan struct{})
				var unexpected atomic.Int32
				go func() { f.overload(t.Context(), &unexpected); close(ended) }()
				samples, busy := f.watchCover(t, ended)
				require.Zero(t, unexpected.Load(), "a request that nobody withdrew failed")
				f.quiet(t)
				preemptions := uint64(0)
				for _, e := range f.engines {
					preemptions += e.Status().Preemptions
				}
				t.Logf("%d samples, %d of them with more than half the cache in use, %d preemptions", samples, busy, preemptions)
				require.GreaterOrEqual(t, busy, 300, "too few samples for the test to mean anything")
				if admission == router.Strict {
					require.Zero(t, preemptions)
				}
			})
		})
	}
}

// overload sends far more than fits, every seventh client leaving early, and returns when all has ended. unexpected counts
// failures of the others.
func (f *rig) overload(ctx context.Context, unexpected *atomic.Int32) {
	var all sync.WaitGroup
	rng := newRand(7)
	shared := randomPrompt(rng, 400)
	for i := range 400 {
		prompt := randomPrompt(rng, 1+rng.IntN(900))
		if i%3 == 0 {
			prompt = append(slices.Clone(shared), prompt...)
		}
		req := tokensRequest(prompt, 1+rng.IntN(300))
		if i%5 == 0 {
			req.MaxTokens, req.IgnoreEOS = nil, false
		}
		leaves := time.Duration(rng.IntN(300)) * time.Millisecond
		all.Go(func() {
			r := f.Submit(req)
			if i%7 == 0 {
				time.AfterFunc(leaves, r.Cancel)
			}
			if a := readAll(ctx, r, 1); a.err != nil && i%7 != 0 {
				unexpected.Add(1)
			}
		})
	}
	all.Wait()
}

// watchCover compares what engines hold with what is booked, until all has ended.
func (f *rig) watchCover(t *testing.T, ended <-chan struct{}) (samples, busy int) {
	t.Helper()
	for {
		select {
		case <-ended:
			return samples, busy
		case <-time.After(37 * time.Microsecond): // virtual, and in step with nothing
		}
		synctest.Wait()
		for i, s := range f.Snapshots() {
			used := f.engines[i].Status().UsedBlocks
			samples++
			if 2*used > int(s.Load.Limits.KVBlocks) {
				busy++
			}
			require.LessOrEqual(t, used, int(s.Load.BookedBlocks), "cover, replica %d", i)
			require.LessOrEqual(t, s.Load.BookedBlocks-s.Load.OverdraftBlocks, s.Load.UsableBlocks(), "grant, replica %d", i)
		}
	}
}

// TestIndependentRequestsSpread evenly over equal replicas: in a bubble, where equal engines take equal times.
func TestIndependentRequestsSpread(t *testing.T) {
	const replicas, requests = 5, 512
	for name, gap := range map[string]time.Duration{"all at once": 0, "100 a second": 10 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, fleetConfig{replicas: replicas, profile: sim.DefaultConfig(), speed: 1})
				var mu sync.Mutex
				share := map[string]int{}
				var all sync.WaitGroup
				rng := newRand(3)
				for range requests {
					r := f.Submit(tokensRequest(randomPrompt(rng, 512), 128))
					all.Go(func() {
						require.NoError(t, readAll(t.Context(), r, 1).err)
						mu.Lock()
						defer mu.Unlock()
						share[r.Replicas()[0]]++
					})
					time.Sleep(gap) // virtual
				}
				all.Wait()
				most, least := 0, requests
				for _, n := range share {
					most, least = max(most, n), min(least, n)
				}
				t.Log(share)
				require.Len(t, share, replicas)
				require.LessOrEqual(t, float64(most)/float64(least), 1.25)
				f.quiet(t)
			})
		})
	}
}

// TestASessionSticks: each turn of a conversation goes to the replica that holds its prefix, and the engine finds it there:
// in a bubble, where what is learned of equal engines is equal.
func TestASessionSticks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 4, profile: sim.DefaultConfig(), speed: 1})
		for session := range uint64(4) {
			rng := newRand(session)
			prompt := randomPrompt(rng, 200)
			home := ""
			for turn := range 8 {
				r := f.Submit(tokensRequest(prompt, 40))
				a := readAll(t.Context(), r, 1)
				require.NoError(t, a.err)
				where := r.Replicas()[0]
				if turn == 0 {
					home = where
				} else {
					require.Equal(t, home, where, "session %d, turn %d", session, turn)
					require.True(t, a.usage.CachedKnown)
					require.GreaterOrEqual(t, a.usage.CachedTokens, len(prompt)-100-2*16, "session %d, turn %d", session, turn)
				}
				prompt = append(prompt, randomPrompt(rng, 100)...)
			}
		}
		f.quiet(t)
	})
}

// TestAReplicaDiesBeforeItsFirstTokens: the clients of those requests see nothing of it. In a bubble, where
// nobody takes paused engines for hung ones before all have their share.
func TestAReplicaDiesBeforeItsFirstTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 3, profile: sim.DefaultConfig(), speed: 50})
		for _, e := range f.engines {
			e.Pause() // so that nothing has a token yet
		}
		const requests = 60
		var responses []*stream.Response
		rng := newRand(11)
		for range requests {
			responses = append(responses, f.Submit(tokensRequest(randomPrompt(rng, 300), 24)))
		}
		hit := 0
		require.Eventually(t, func() bool {
			placed := 0
			for _, s := range f.Snapshots() {
				placed += s.Load.Reserved
			}
			hit = f.Snapshots()[1].Load.Reserved
			return placed == requests
		}, time.Minute, time.Millisecond)
		require.Greater(t, hit, requests/5, "too few for the test to mean anything")
		victim := f.engines[1]
		f.engines[0].Resume()
		f.engines[2].Resume()
		victim.Kill()
		for i, r := range responses {
			a := readAll(t.Context(), r, 1)
			require.NoError(t, a.err, "request %d, on %v", i, r.Replicas())
			require.Equal(t, 24, a.usage.CompletionTokens)
			require.NotEqual(t, "sim-1", r.Replicas()[len(r.Replicas())-1])
		}
		t.Logf("%d of %d requests were routed anew", hit, requests)
		victim.Start()
		f.quiet(t)
	})
}
