package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func listOf(t *testing.T, texts ...string) []ReplicaSpec {
	t.Helper()
	specs := make([]ReplicaSpec, len(texts))
	for i, text := range texts {
		var err error
		specs[i], err = ParseReplica(text, i+1)
		require.NoError(t, err)
	}
	return specs
}

func TestWhatAFileThatIsReadAgainChanges(t *testing.T) {
	const a, b, c = "vllm=http://a:1,name=a", "vllm=http://b:1,name=b", "llamacpp=http://c:1,name=c"
	for name, of := range map[string]struct {
		before, now         []string
		add, remove, others []string // names
	}{
		"nothing":                  {[]string{a, b}, []string{a, b}, nil, nil, nil},
		"another order":            {[]string{a, b}, []string{b, a}, nil, nil, nil},
		"one more":                 {[]string{a}, []string{a, b}, []string{"b"}, nil, nil},
		"one less":                 {[]string{a, b}, []string{b}, nil, []string{"a"}, nil},
		"one for another":          {[]string{a, b}, []string{b, c}, []string{"c"}, []string{"a"}, nil},
		"the same, written oddly":  {[]string{a}, []string{"vllm=http://A:1/v1,name=a"}, nil, nil, []string{"a"}},
		"other options":            {[]string{a}, []string{a + ",slots=3"}, nil, nil, []string{"a"}},
		"another name":             {[]string{a}, []string{"vllm=http://a:1,name=z"}, nil, nil, []string{"z"}},
		"another kind there":       {[]string{a}, []string{"llamacpp=http://a:1,name=a"}, []string{"a"}, []string{"a"}, nil},
		"its ranks one by one":     {[]string{a}, []string{a + ",rank=1"}, []string{"a"}, []string{"a"}, nil},
		"simulated, by their name": {[]string{"sim=tiny,name=x"}, []string{"sim=tiny,name=x", "sim=tiny,name=y"}, []string{"y"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := newListed(listOf(t, of.before...)).change(listOf(t, of.now...))
			for what, of := range map[string]struct {
				want []string
				got  []ReplicaSpec
			}{"add": {of.add, got.add}, "remove": {of.remove, got.remove}, "others": {of.others, got.others}} {
				var names []string
				for _, spec := range of.got {
					names = append(names, spec.Name)
				}
				require.Equal(t, of.want, names, what)
			}
		})
	}
}

// What was there before the file said so is not the file's to remove.
func TestAFileRemovesOnlyWhatItHasAdded(t *testing.T) {
	l := newListed(listOf(t, "vllm=http://a:1", "vllm=http://b:1"))
	delete(l.added, l.said[0].key())
	require.Equal(t, l.said[1:], l.change(nil).remove)
}

func TestKeysOfReplicasDiffer(t *testing.T) {
	keys := map[string]string{}
	for i, text := range []string{
		"vllm=http://a:1", "vllm=http://a:2", "vllm=http://a:1,rank=0", "vllm=http://a:1,rank=1", "llamacpp=http://a:1", "sim=tiny", "sim=tiny,name=x", "sim=h100-8b,name=x",
	} {
		spec, err := ParseReplica(text, i+1)
		require.NoError(t, err)
		require.Empty(t, keys[spec.key()], strconv.Itoa(i))
		keys[spec.key()] = text
	}
}
