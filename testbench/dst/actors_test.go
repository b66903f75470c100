package dst

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer"
)

// actorSeeds is how many seeds run through the real actors, unless DST_ACTORS_SEEDS says another number, and
// DST_ACTORS_FIRST another first one than 0.
const actorSeeds = 200

// TestTheActorsAnswerTheSame runs seeds through both drivers: the one that calls the machines, and a real node in a bubble. Both
// have the same fleet, requests and faults. At the end of each seed nothing is left of any request, all replicas serve again, and
// no goroutine is left, which the bubble itself sees to.
func TestTheActorsAnswerTheSame(t *testing.T) { //nolint:tparallel // each part's seeds run one after another: there are no more cores than parts
	t.Parallel()
	first, seeds := fromEnvironment(t, "DST_ACTORS_FIRST", 0), fromEnvironment(t, "DST_ACTORS_SEEDS", actorSeeds)
	tok := spelled(t)
	var mu sync.Mutex
	var total tally
	t.Run("seeds", func(t *testing.T) {
		const parts = 2
		for part := range uint64(parts) {
			t.Run("part "+strconv.FormatUint(part, 10), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+seeds; seed += parts {
					t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
						one := both(t, seed, tok)
						mu.Lock()
						defer mu.Unlock()
						total.add(&one)
					})
				}
			})
		}
	})
	t.Log(&total)
	require.Equal(t, int(seeds), total.seeds) //nolint:gosec // a count
	require.GreaterOrEqual(t, total.same*100, total.requests*80, "too few requests were compared whole")
	require.LessOrEqual(t, total.differing()*100, total.requests*3, "too many requests end in another way")
	require.GreaterOrEqual(t, total.requests, total.seeds*LegsFloor)
	require.GreaterOrEqual(t, total.tokens, total.seeds*1000)
	if seeds >= actorSeeds {
		require.GreaterOrEqual(t, total.resumed, total.seeds/2, "too few answers came of several engines")
		require.GreaterOrEqual(t, total.panics, total.seeds/4, "too few actors panicked")
	}
}

func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	said := os.Getenv(name)
	if said == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(said, 10, 64)
	require.NoError(t, err, name)
	return n
}

// both runs one seed through both drivers.
func both(t *testing.T, seed uint64, tok *tokenizer.Model) (out tally) {
	t.Helper()
	first := newWorld(Config{Seed: seed, AllIDs: true})
	require.Nil(t, first.run().Violation, "the first driver's own run")
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, first, tok)
		defer b.close(t)
		time.Sleep(first.now)
		settles(t, slowFor+trustedWithin+quietWithin, b.waiting)
		settles(t, quietWithin, b.quiet)
		settles(t, trustedWithin, b.unready)
		b.close(t)
		out.seeds, out.panics = 1, b.panics
		for _, c := range first.calls {
			if !c.omitted() {
				out.compare(b.clients[c.n])
			}
		}
		require.Nil(t, b.w.bad)
		require.Empty(t, out.bad)
	})
	return out
}

// settles waits until a condition names nothing any more.
func settles(t *testing.T, within time.Duration, left func() string) {
	t.Helper()
	const every = 100 * time.Millisecond
	for waited := time.Duration(0); left() != "" && waited < within; waited += every {
		time.Sleep(every)
	}
	require.Empty(t, left(), "after %s", within)
}
