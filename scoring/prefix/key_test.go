package prefix_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring/prefix"
)

var rewrite = flag.Bool("rewrite", false, "write the golden keys anew; nodes of a cluster must agree on them")

// goldenKeys is one line of testdata/keys.json.
type goldenKeys struct {
	Namespace   prefix.Namespace
	BlockTokens int
	Tokens      []uint32
	Seed        string   // hexadecimal
	Keys        []string // hexadecimal
}

// TestGoldenKeys: keys are the same in every build and on every machine, for nodes of different versions share them.
func TestGoldenKeys(t *testing.T) {
	name := filepath.Join("testdata", "keys.json")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	var golden []goldenKeys
	require.NoError(t, json.Unmarshal(data, &golden))
	require.GreaterOrEqual(t, len(golden), 6)
	hex := func(k prefix.Key) string { return strconv.FormatUint(uint64(k), 16) }
	for i, g := range golden {
		keys := make([]string, 0, len(g.Keys))
		for _, k := range prefix.AppendKeys(nil, g.Namespace.Seed(), g.Tokens, g.BlockTokens) {
			keys = append(keys, hex(k))
		}
		if *rewrite {
			golden[i].Seed, golden[i].Keys = hex(g.Namespace.Seed()), keys
			continue
		}
		require.Equal(t, g.Seed, hex(g.Namespace.Seed()), "seed of %+v", g.Namespace)
		require.Equal(t, g.Keys, keys, "keys in %+v", g.Namespace)
		require.Len(t, keys, len(g.Tokens)/g.BlockTokens)
	}
	if *rewrite {
		data, err := json.MarshalIndent(golden, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, append(data, '\n'), 0o600))
	}
}

// TestKeysGrow: hashing a text in pieces equals hashing it whole.
func TestKeysGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 16, 64, 65, 100}).Draw(t, "block")
		tokens := rapid.SliceOfN(rapid.Uint32(), 0, 600).Draw(t, "tokens")
		seed := prefix.Namespace{Model: "m"}.Seed()
		whole := prefix.AppendKeys(nil, seed, tokens, size)
		require.Len(t, whole, len(tokens)/size)

		cut := rapid.IntRange(0, len(whole)).Draw(t, "cut")
		keys := prefix.AppendKeys(nil, seed, tokens[:cut*size], size)
		parent := seed
		if cut > 0 {
			parent = keys[cut-1]
		}
		grown := prefix.AppendKeys(keys, parent, tokens[cut*size:], size)
		require.Equal(t, len(whole), len(grown))
		for i := range whole {
			require.Equal(t, whole[i], grown[i])
		}
	})
}

// TestKeysTellPrefixesApart: two texts share exactly the keys of their common full blocks.
func TestKeysTellPrefixesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 4
		token := rapid.Uint32Range(0, 2)
		a := rapid.SliceOfN(token, 0, 40).Draw(t, "a")
		b := append(a[:rapid.IntRange(0, len(a)).Draw(t, "common")], rapid.SliceOfN(token, 0, 20).Draw(t, "b")...)
		ka, kb := prefix.AppendKeys(nil, 1, a, size), prefix.AppendKeys(nil, 1, b, size)
		common := 0
		for common < min(len(a), len(b)) && a[common] == b[common] {
			common++
		}
		for i := range min(len(ka), len(kb)) {
			require.Equal(t, i < common/size, ka[i] == kb[i], "block %d, %d common tokens", i, common)
		}
	})
}

// TestNamespacesIsolate: no field of a namespace can pose as another, alone or joined.
func TestNamespacesIsolate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00")), 0, 3, -1)
		draw := func(name string) prefix.Namespace {
			return prefix.Namespace{
				Model: field.Draw(t, name+" model"), LoRA: field.Draw(t, name+" lora"), Salt: field.Draw(t, name+" salt"),
			}
		}
		a, b := draw("a"), draw("b")
		require.Equal(t, a == b, a.Seed() == b.Seed(), "%+v and %+v", a, b)
	})
	require.NotEqual(t, prefix.Namespace{Model: "ab"}.Seed(), prefix.Namespace{Model: "a", LoRA: "b"}.Seed())
	require.NotEqual(t, prefix.Namespace{LoRA: "a"}.Seed(), prefix.Namespace{Salt: "a"}.Seed())
}
