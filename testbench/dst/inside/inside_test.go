package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
)

// A change of the product changes what a seed means. Then the plant is searched for as make dst-plants does, in fewer seeds.
const (
	seedsOfPatch = 20
	seedsOfAll   = 600
)

// TestBugsInsideTheCodeAreFound: every patch applies, what comes of it builds, and each is found by the checker that it names, from the
// seed on that it names if that still means what it did. A patch that no longer applies is brought up to date, or replaced by another of its kind; one that is not
// found any more is searched for by make dst-plants.
func TestBugsInsideTheCodeAreFound(t *testing.T) {
	t.Parallel()
	patches, err := Patches()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 22)
	program, err := build(t.Context(), shared.Repository(t), t.TempDir(), patches)
	require.NoError(t, err)

	for i := range patches {
		p := &patches[i]
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			f, err := sow(t.Context(), program, p, p.Seed, seedsOfPatch)
			require.NoError(t, err)
			if !f.Found {
				f, err = sow(t.Context(), program, p, 0, seedsOfAll)
				require.NoError(t, err)
			}
			require.True(t, f.Found, "not found by %s; %d seeds violate something else: %s", p.Catches, f.Others, f.Other)
			t.Logf("seed %d: %s", f.Seed, f.What)
		})
	}
	t.Run("nothing is found where nothing is sown", func(t *testing.T) {
		t.Parallel()
		f, err := sow(t.Context(), program, &Patch{Name: "", Catches: patches[0].Catches}, 0, 3)
		require.NoError(t, err)
		require.False(t, f.Found)
		require.Zero(t, f.Others, "%s", f.Other)
	})
}

// TestPatchesThatSayNothing are refused with what is wrong.
func TestPatchesThatSayNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: a\nfile: f\n--- old\na\n--- new\na\n": "changes something",
		"name: a\n":                                           "changes something",
		"file: f\n--- old\na\n--- new\nb\n":                   "has a name",
		"name: a\ncatches: nobody\n":                          "no checker",
		"name: a\nwhat: is this\n":                            "nothing that a patch says",
		"name: a\n--- old\na\n--- new\nb\n":                   "changes something in a file",
		"name: a\nseed: many\nfile: f\n--- old\na\n--- new\n": "invalid syntax",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want, "%s", text)
	}
}

// TestWeaving: a function goes to its planted copy where its plant is sown, and all else stays as it is.
func TestWeaving(t *testing.T) {
	t.Parallel()
	const text = `package p

// T is a type.
type T[K any] struct{ n int }

func (t *T[K]) add(n int, more ...int) int {
	t.n += n
	return t.n
}

func (t *T[K]) reset() { t.n = 0 }
`
	f, err := openFile("p.go", []byte(text))
	require.NoError(t, err)
	require.NoError(t, f.plant(0, &Patch{Name: "one", Hunks: []Hunk{{"p.go", "t.n += n", "t.n += n + 1"}}}))
	require.NoError(t, f.plant(1, &Patch{Name: "two", Hunks: []Hunk{{"p.go", "t.n = 0", "t.n = 1"}}}))
	got, err := f.woven()
	require.NoError(t, err)
	require.Equal(t, `package p

import "plimsoll/scoring/sown"

// T is a type.
type T[K any] struct{ n int }

func (t *T[K]) add(n int, more ...int) int {
	if sown.Plant == "one" {
		return t.add_sown0(n, more...)
	}

	t.n += n
	return t.n
}

func (t *T[K]) reset() {
	if sown.Plant == "two" {
		t.reset_sown1()
		return
	}
	t.n = 0
}

func (t *T[K]) add_sown0(n int, more ...int) int {
	t.n += n + 1
	return t.n
}

func (t *T[K]) reset_sown1() { t.n = 1 }
`, string(got))

	for want, old := range map[string]string{
		"stands there 0 times": "nowhere", "stands there 2 times": "(t *T[K])", "is not inside one function": "type T[K any] struct{ n int }",
	} {
		require.ErrorContains(t, f.plant(2, &Patch{Name: "three", Hunks: []Hunk{{"p.go", old, "x"}}}), want)
	}
}
