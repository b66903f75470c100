package prefix_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

const (
	blockTokens = 2
	model       = "m"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testConfig() prefix.Config {
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = model, blockTokens
	return cfg
}

// drawSequence draws from a tree of few sequences, so that they share, meet and part often.
func drawSequence(t *rapid.T) sequence {
	space := rapid.SampledFrom([]prefix.Namespace{
		{Model: model}, {Model: model}, {Model: model, LoRA: "a"}, {Model: model, Salt: "a"},
	}).Draw(t, "space")
	blocks := rapid.IntRange(1, 6).Draw(t, "blocks")
	tokens := make([]uint32, 0, blocks*blockTokens)
	for range blocks {
		tokens = append(tokens, 7, uint32(rapid.IntRange(0, 1).Draw(t, "token")))
	}
	return sequence{space, tokens}
}

// tally counts what a property test did, so that it cannot pass by doing nothing.
type tally map[string]int

func (c tally) require(t *testing.T, floor int, names ...string) {
	t.Helper()
	t.Log(c)
	for _, name := range names {
		require.GreaterOrEqual(t, c[name], floor, "too few cases of %q were tried", name)
	}
}

// checkOften runs a property twenty times as often as rapid does by itself.
func checkOften(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range 20 {
		rapid.Check(t, property)
	}
}

// TestIndexAgainstOracle drives events slots and their oracles through the same events, speculations and voids in any
// order, and compares every answer.
func TestIndexAgainstOracle(t *testing.T) {
	const slots = 3
	did := tally{}
	checkOften(t, func(t *rapid.T) {
		ix := prefix.NewIndex(testConfig())
		oracles := make([]*oracle, slots)
		for i := range oracles {
			require.Equal(t, prefix.Slot(i), ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1000}))
			oracles[i] = &oracle{}
		}
		now := start
		pick := func(t *rapid.T) (prefix.Slot, *oracle) {
			i := rapid.IntRange(0, slots-1).Draw(t, "slot")
			return prefix.Slot(i), oracles[i]
		}
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				s, o := pick(t)
				seq := drawSequence(t)
				from := 0
				if rapid.IntRange(0, 3).Draw(t, "kind") == 0 { // a middle part, perhaps of unknown parent
					from = rapid.IntRange(0, seq.blocks()-1).Draw(t, "from")
				}
				unknown := ix.Stats(s).UnknownParents
				for range rapid.IntRange(1, 2).Draw(t, "times") { // further copies, or one delivered twice
					ix.Apply(s, []prefix.Event{seq.stored(from, seq.blocks())})
					seq.applyTo(o, from, seq.blocks())
				}
				o.confirm()
				did["store"]++
				if ix.Stats(s).UnknownParents > unknown {
					did["orphan"]++
				}
			},
			"remove": func(t *rapid.T) {
				s, o := pick(t)
				seq := drawSequence(t)
				from := rapid.IntRange(0, seq.blocks()-1).Draw(t, "from")
				e := prefix.Event{Kind: prefix.Removed}
				for i := seq.blocks() - 1; i >= from; i-- { // tail first, as engines free
					e.Hashes = append(e.Hashes, seq.engineHash(i))
					o.remove(seq.engineHash(i))
				}
				o.confirm()
				before := ix.Stats(s)
				ix.Apply(s, []prefix.Event{e})
				did["remove"]++
				if ix.Stats(s).Holes > before.Holes {
					did["hole"]++
				}
			},
			"remove held": func(t *rapid.T) {
				s, o := pick(t)
				if len(o.entries) == 0 {
					t.Skip("nothing is held")
				}
				h := rapid.SampledFrom(o.entries).Draw(t, "entry").hash
				o.remove(h)
				o.confirm()
				ix.Apply(s, []prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{h}}})
				did["remove held"]++
			},
			"several events at once": func(t *rapid.T) {
				s, o := pick(t)
				a, b := drawSequence(t), drawSequence(t)
				h := a.engineHash(0)
				ix.Apply(s, []prefix.Event{
					a.stored(0, a.blocks()), {Kind: prefix.Removed, Hashes: []uint64{h}}, b.stored(0, b.blocks()),
				})
				a.applyTo(o, 0, a.blocks())
				o.remove(h)
				b.applyTo(o, 0, b.blocks())
				o.confirm()
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "rarely") > 0 {
					t.Skip("rarely")
				}
				s, o := pick(t)
				ix.Apply(s, []prefix.Event{{Kind: prefix.Cleared}})
				o.cleared()
				did["clear"]++
			},
			"void": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "rarely") > 0 {
					t.Skip("rarely")
				}
				s, o := pick(t)
				ix.Void(s)
				o.reset()
				did["void"]++
			},
			"not for this index": func(t *rapid.T) {
				s, o := pick(t)
				seq := drawSequence(t)
				other := seq.stored(0, seq.blocks())
				other.BlockTokens++
				own := seq.stored(0, seq.blocks())
				own.Parent = &own.Hashes[len(own.Hashes)-1]
				ix.Apply(s, []prefix.Event{other, own})
				o.void = false // it did hear from the engine
			},
			"speculate": func(t *rapid.T) {
				s, o := pick(t)
				seq := drawSequence(t)
				ticket := scoring.Ticket{Number: uint64(rapid.IntRange(1, 4).Draw(t, "ticket"))}
				until := now.Add(time.Duration(rapid.IntRange(-1, 5).Draw(t, "seconds")) * time.Second)
				ix.Speculate(s, ticket, seq.keys(), until)
				o.speculate(ticket, seq.texts(), until)
				did["speculate"]++
			},
			"withdraw": func(t *rapid.T) {
				s, o := pick(t)
				ticket := scoring.Ticket{Number: uint64(rapid.IntRange(1, 4).Draw(t, "ticket"))}
				ix.Withdraw(s, ticket)
				o.withdraw(ticket)
			},
			"time passes": func(*rapid.T) { now = now.Add(time.Second) },
			"": func(t *rapid.T) {
				seq := drawSequence(t)
				got := ix.Match(now, seq.keys(), nil)
				require.Len(t, got, slots)
				for i, o := range oracles {
					want := o.match(now, seq.texts())
					require.Equal(t, want, int(got[i].Device), "slot %d, sequence %v", i, seq)
					st := ix.Stats(prefix.Slot(i))
					blocks, copies, orphans, holes := o.stats()
					if st.Speculations > 0 { // what is claimed opens and closes holes too
						holes = st.Holes
					}
					require.Equal(t, []int{blocks, copies, orphans, holes}, []int{st.Blocks, st.Copies, st.Orphans, st.Holes},
						"blocks, copies, orphans and holes of slot %d", i)
					require.Equal(t, o.void, st.Void)
					if want > 0 {
						did["hit"]++
					}
					if want > 0 && want < seq.blocks() {
						did["part hit"]++
					}
					if ix.Stats(prefix.Slot(i)).Holes > 0 && want > 0 {
						did["hit beside a hole"]++
					}
				}
			},
		})
	})
	did.require(t, 50, "store", "orphan", "remove", "remove held", "hole", "clear", "void", "speculate", "hit", "part hit",
		"hit beside a hole")
}

// TestRoutedAgainstOracle compares a routed slot with the definition of its memory: the touched sequence, then what was
// there before, cut at the capacity.
func TestRoutedAgainstOracle(t *testing.T) {
	did := tally{}
	checkOften(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
		ix := prefix.NewIndex(testConfig())
		s := ix.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: scoring.Blocks(capacity)})
		var recent []prefix.Key
		t.Repeat(map[string]func(*rapid.T){
			"routed": func(t *rapid.T) {
				keys := drawSequence(t).keys()
				ix.Routed(s, keys)
				next := slices.Clone(keys)
				for _, k := range recent {
					if !slices.Contains(keys, k) {
						next = append(next, k)
					}
				}
				recent = next[:min(len(next), capacity)]
				if len(next) > capacity {
					did["eviction"]++
				}
			},
			"void": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "rarely") > 0 {
					t.Skip("rarely")
				}
				ix.Void(s)
				recent = nil
				did["void"]++
			},
			"": func(t *rapid.T) {
				keys := drawSequence(t).keys()
				want := 0
				for want < len(keys) && slices.Contains(recent, keys[want]) {
					want++
				}
				require.Equal(t, onDevice(scoring.Blocks(want)), ix.Match(start, keys, nil))
				require.Equal(t, len(recent), ix.Stats(s).Blocks)
				if want > 0 {
					did["hit"]++
				}
			},
		})
	})
	did.require(t, 50, "eviction", "void", "hit")
}

// TestMemoryIsBounded feeds a slot what only a broken feed sends: orphans, speculations and blocks without end. It may
// then know less than it could, never more than it was told.
func TestMemoryIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.OrphansMax, cfg.SpeculationsMax, cfg.OverflowFactor = 8, 4, 2
	seq := func(i int) sequence {
		return sequence{prefix.Namespace{Model: model}, []uint32{uint32(i), 1, uint32(i), 2, uint32(i), 3}}
	}

	t.Run("orphans", func(t *testing.T) {
		ix := prefix.NewIndex(cfg)
		s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1000})
		for i := range 50 {
			ix.Apply(s, []prefix.Event{seq(i).stored(1, 3)})
			require.LessOrEqual(t, ix.Stats(s).Orphans, cfg.OrphansMax)
		}
		st := ix.Stats(s)
		require.EqualValues(t, 50*2-cfg.OrphansMax, st.OrphansDropped)
		require.Equal(t, cfg.OrphansMax, st.Copies)
		// The newest are still there, the oldest are not.
		ix.Apply(s, []prefix.Event{seq(49).stored(0, 1), seq(0).stored(0, 1)})
		require.Equal(t, onDevice(3), ix.Match(start, seq(49).keys(), nil))
		require.Equal(t, onDevice(1), ix.Match(start, seq(0).keys(), nil))
	})
	t.Run("speculations", func(t *testing.T) {
		ix := prefix.NewIndex(cfg)
		s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1000})
		for i := range 10 {
			ix.Speculate(s, scoring.Ticket{Number: uint64(i)}, seq(i).keys(), start.Add(time.Second))
		}
		require.Equal(t, cfg.SpeculationsMax, ix.Stats(s).Speculations)
		require.Equal(t, onDevice(3), ix.Match(start, seq(9).keys(), nil))
		require.Equal(t, onDevice(0), ix.Match(start, seq(5).keys(), nil))
		// Those whose time is over make room when the next comes.
		ix.Match(start.Add(time.Minute), seq(9).keys(), nil)
		ix.Speculate(s, scoring.Ticket{Number: 99}, seq(0).keys(), start.Add(time.Hour))
		require.Equal(t, 1, ix.Stats(s).Speculations)
	})
	t.Run("blocks beyond what the replica can hold", func(t *testing.T) {
		ix := prefix.NewIndex(cfg)
		s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 6})
		for i := range 4 {
			ix.Apply(s, []prefix.Event{seq(i).stored(0, 3)})
		}
		require.Equal(t, onDevice(3), ix.Match(start, seq(0).keys(), nil))
		ix.Apply(s, []prefix.Event{seq(4).stored(0, 3)}) // 15 copies on a replica of 6 blocks: removals were lost
		st := ix.Stats(s)
		require.EqualValues(t, 1, st.Overflows)
		require.True(t, st.Void)
		require.Zero(t, st.Copies)
		require.Equal(t, onDevice(0), ix.Match(start, seq(4).keys(), nil))
		ix.Apply(s, []prefix.Event{seq(5).stored(0, 3)})
		require.Equal(t, onDevice(3), ix.Match(start, seq(5).keys(), nil))
	})
	t.Run("removals leave the size where it was", func(t *testing.T) {
		ix := prefix.NewIndex(cfg)
		s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 64})
		for i := range 20_000 {
			ix.Apply(s, []prefix.Event{seq(i).stored(0, 3)})
			if i >= 16 {
				old := seq(i - 16)
				ix.Apply(s, []prefix.Event{{
					Kind: prefix.Removed, Hashes: []uint64{old.engineHash(2), old.engineHash(1), old.engineHash(0)},
				}})
			}
		}
		st := ix.Stats(s)
		require.Equal(t, prefix.Stats{Blocks: 48, Copies: 48}, st)
	})
}

// TestOddEvents: what an index must survive, and what it says of it.
func TestOddEvents(t *testing.T) {
	seq := sequence{prefix.Namespace{Model: model}, []uint32{1, 2, 3, 4, 5, 6}}
	whole := seq.stored(0, 3)
	for _, tc := range []struct {
		name   string
		events []prefix.Event
		blocks scoring.Blocks
		count  func(prefix.Stats) uint64
	}{
		{
			"another block size",
			[]prefix.Event{{Kind: prefix.Stored, BlockTokens: 3, Tokens: seq.tokens, Hashes: []uint64{1, 2}}},
			0,
			func(s prefix.Stats) uint64 { return s.OtherBlockSize },
		},
		{
			"fewer hashes than blocks: no telling which",
			[]prefix.Event{{Kind: prefix.Stored, BlockTokens: 2, Tokens: seq.tokens, Hashes: []uint64{1, 2}}},
			0,
			func(s prefix.Stats) uint64 { return s.Malformed },
		},
		{
			"hashes without tokens",
			[]prefix.Event{{Kind: prefix.Stored, BlockTokens: 2, Hashes: []uint64{1}}},
			0,
			func(s prefix.Stats) uint64 { return s.Malformed },
		},
		{
			"a block before itself",
			[]prefix.Event{{Kind: prefix.Stored, BlockTokens: 2, Tokens: seq.tokens[:2], Hashes: []uint64{1}, Parent: new(uint64(1))}},
			0,
			func(s prefix.Stats) uint64 { return s.Malformed },
		},
		{
			"removal of what is not there",
			[]prefix.Event{whole, {Kind: prefix.Removed, Hashes: []uint64{42}}},
			3,
			func(s prefix.Stats) uint64 { return s.UnknownRemovals },
		},
		{
			"one hash for two contents: the first stays",
			[]prefix.Event{whole, {Kind: prefix.Stored, BlockTokens: 2, Tokens: []uint32{9, 9}, Hashes: whole.Hashes[:1]}},
			3,
			func(s prefix.Stats) uint64 { return s.Conflicts },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ix := prefix.NewIndex(testConfig())
			s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 100})
			ix.Apply(s, tc.events)
			require.EqualValues(t, 1, tc.count(ix.Stats(s)))
			require.Equal(t, onDevice(tc.blocks), ix.Match(start, seq.keys(), nil))
		})
	}

	t.Run("a partial last block is left out, with or without a hash", func(t *testing.T) {
		for _, hashes := range [][]uint64{{1, 2}, {1, 2, 3}} {
			ix := prefix.NewIndex(testConfig())
			s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 100})
			ix.Apply(s, []prefix.Event{{Kind: prefix.Stored, BlockTokens: 2, Tokens: seq.tokens[:5], Hashes: hashes}})
			require.Equal(t, onDevice(2), ix.Match(start, seq.keys(), nil))
		}
	})
}

// TestOneNameForTwoSalts: an engine whose names leave out the salt. What one tenant's sequence goes on with is never claimed
// for the other's, in whatever order blocks come and go.
func TestOneNameForTwoSalts(t *testing.T) {
	of := func(salt string) sequence {
		return sequence{prefix.Namespace{Model: model, Salt: salt}, []uint32{1, 2, 3, 4, 5, 6}}
	}
	store := func(salt string, from, to uint64) prefix.Event {
		e := prefix.Event{
			Kind: prefix.Stored, Salt: salt, BlockTokens: blockTokens, Tokens: of(salt).tokens[from*blockTokens : to*blockTokens],
		}
		for name := from + 1; name <= to; name++ {
			e.Hashes = append(e.Hashes, name)
		}
		if from > 0 {
			e.Parent = &from
		}
		return e
	}
	remove := func(names ...uint64) prefix.Event { return prefix.Event{Kind: prefix.Removed, Hashes: names} }
	for name, c := range map[string]struct {
		events    []prefix.Event
		red, blue scoring.Blocks // that are claimed for each salt
	}{
		"the other's goes on": {[]prefix.Event{store("red", 0, 2), store("blue", 0, 2), store("blue", 2, 3)}, 2, 0},
		"the other's was longer": {
			[]prefix.Event{store("red", 0, 1), store("blue", 0, 2), store("blue", 2, 3), store("red", 1, 2)}, 1, 0,
		},
		"the first leaves and comes back": {
			[]prefix.Event{
				store("red", 0, 2), store("blue", 0, 2), remove(2, 1), store("red", 0, 2), store("blue", 2, 3),
			}, 2, 0,
		},
		"by name alone": {
			[]prefix.Event{
				store("red", 0, 1), store("blue", 0, 1), {Kind: prefix.Stored, Tier: prefix.Host, Hashes: []uint64{1}}, remove(1),
			}, 0, 0,
		},
		"both leave, and all is well again": {
			[]prefix.Event{
				store("red", 0, 2), store("blue", 0, 3), remove(2, 1), remove(3, 2, 1), store("blue", 0, 2), store("blue", 2, 3),
			}, 0, 3,
		},
	} {
		for _, copies := range []prefix.Copies{prefix.AsSet, prefix.Counted} {
			t.Run(fmt.Sprintf("%s, copies=%d", name, copies), func(t *testing.T) {
				ix := prefix.NewIndex(testConfig())
				s := ix.Add(prefix.SlotConfig{Source: prefix.Events, Copies: copies, CapacityBlocks: 100})
				ix.Apply(s, c.events)
				for salt, want := range map[string]scoring.Blocks{"red": c.red, "blue": c.blue} {
					require.Equal(t, []prefix.Overlap{{Device: want}}, ix.Match(start, of(salt).keys(), nil), salt)
				}
			})
		}
	}
}

// TestExtrasIsolate: a block that depends on more than its tokens never meets the text with the same tokens, nor one that
// depends on something else; those behind it do not either.
func TestExtrasIsolate(t *testing.T) {
	seq := sequence{prefix.Namespace{Model: model}, []uint32{1, 2, 3, 4, 5, 6}}
	ix := prefix.NewIndex(testConfig())
	s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 100})
	image := seq.stored(0, 3)
	image.Extras = []uint64{0, 77, 0}
	ix.Apply(s, []prefix.Event{image})
	require.Equal(t, onDevice(1), ix.Match(start, seq.keys(), nil), "the block before the image is text")

	other := seq.stored(0, 3)
	other.Hashes = []uint64{other.Hashes[0], 101, 102}
	other.Extras = []uint64{0, 78, 0}
	ix.Apply(s, []prefix.Event{other})
	require.Equal(t, 5, ix.Stats(s).Blocks, "two blocks of each image and the one they share")

	text := seq.stored(0, 3)
	text.Hashes = []uint64{text.Hashes[0], 201, 202}
	text.Extras = []uint64{0, 0, 0}
	ix.Apply(s, []prefix.Event{text})
	require.Equal(t, onDevice(3), ix.Match(start, seq.keys(), nil))
	require.Equal(t, 7, ix.Stats(s).Blocks)

	short := seq.stored(0, 3)
	short.Extras = []uint64{0}
	ix.Apply(s, []prefix.Event{short})
	require.EqualValues(t, 1, ix.Stats(s).Malformed, "extras that do not go with the blocks")
}

// TestVoidUntilTheFeedSpeaks: a void slot answers 0, whatever is speculated; a feed that starts anew over an empty cache
// sends a batch without events, and from then on speculations count.
func TestVoidUntilTheFeedSpeaks(t *testing.T) {
	seq := sequence{prefix.Namespace{Model: model}, []uint32{1, 2, 3, 4}}
	ix := prefix.NewIndex(testConfig())
	s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 10})
	speculate := func() { ix.Speculate(s, scoring.Ticket{Number: 1}, seq.keys(), start.Add(time.Second)) }
	held := func() int { return int(ix.Match(start, seq.keys(), nil)[s].Device) }

	speculate()
	require.Equal(t, 2, held(), "a new slot is not void: its cache is empty until its feed says otherwise")
	ix.Void(s)
	require.Zero(t, held(), "what was speculated for the life before is gone")
	speculate()
	require.Zero(t, held(), "void means 0")
	ix.Apply(s, nil)
	require.Equal(t, 2, held())
	ix.Withdraw(s, scoring.Ticket{Number: 1})
	require.Zero(t, held())
}

// TestSlots: places are dense, freed by Remove and used again; what belongs to no slot does nothing.
func TestSlots(t *testing.T) {
	seq := sequence{prefix.Namespace{Model: model}, []uint32{1, 2}}
	ix := prefix.NewIndex(testConfig())
	require.Empty(t, ix.Match(start, seq.keys(), nil))
	for i := range 3 {
		require.Equal(t, prefix.Slot(i), ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 10}))
		ix.Apply(prefix.Slot(i), []prefix.Event{seq.stored(0, 1)})
	}
	ix.Remove(1)
	require.Equal(t, onDevice(1, 0, 1), ix.Match(start, seq.keys(), nil))
	ix.Apply(1, []prefix.Event{seq.stored(0, 1)})
	ix.Routed(1, seq.keys())
	ix.Speculate(1, scoring.Ticket{}, seq.keys(), start.Add(time.Second))
	ix.Withdraw(1, scoring.Ticket{})
	ix.Void(1)
	ix.Remove(7)
	require.Equal(t, prefix.Stats{}, ix.Stats(1))
	require.Equal(t, onDevice(1, 0, 1), ix.Match(start, seq.keys(), nil))

	require.Equal(t, prefix.Slot(1), ix.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: 10}), "the free place is used again")
	require.Equal(t, onDevice(1, 0, 1), ix.Match(start, seq.keys(), nil), "and remembers nothing")
	ix.Routed(1, seq.keys())
	ix.Apply(1, []prefix.Event{{Kind: prefix.Cleared}})
	require.Equal(t, onDevice(1, 1, 1), ix.Match(start, seq.keys(), nil), "a routed slot takes no events")
}

// onDevice is the answer of slots that hold so many leading blocks on their devices.
func onDevice(blocks ...scoring.Blocks) []prefix.Overlap {
	overlaps := make([]prefix.Overlap, len(blocks))
	for i, n := range blocks {
		overlaps[i].Device = n
	}
	return overlaps
}
