package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnectionsFitBesideTheFleet(t *testing.T) {
	asked := func(n int) *int { return &n }
	for _, c := range []struct {
		name  string
		files Files
		asked *int
		most  int
		says  []string // of why there are fewer
		fails []string
	}{
		{name: "room for all", files: Files{Limit: 20000, Fleet: 1000}, most: 16384},
		{name: "room to the last", files: Files{Limit: 16384 + 1000 + 64, Fleet: 1000}, most: 16384},
		{name: "one too few", files: Files{Limit: 16384 + 1000 + 63, Fleet: 1000}, most: 16383, says: []string{"16383 connections are held", "need 17448 open files", "may have 17447"}},
		{name: "an old system's limit", files: Files{Limit: 1024, Fleet: 528}, most: 432, says: []string{"432 connections"}},
		{name: "no room to serve", files: Files{Limit: 256, Fleet: 264}, fails: []string{"may have 256", "ulimit -n", "at least 344"}},
		{name: "asked for and there", files: Files{Limit: 1024}, asked: asked(960), most: 960},
		{name: "asked for more", files: Files{Limit: 1024}, asked: asked(961), fails: []string{"need 1025 open files", "--max-connections 960 at most"}},
		{name: "asked for few", files: Files{Limit: 80}, asked: asked(4), most: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			most, fewer, err := c.files.Connections(c.asked, 16384)
			for _, word := range c.fails {
				require.ErrorContains(t, err, word)
			}
			if c.fails == nil {
				require.NoError(t, err)
			}
			for _, word := range c.says {
				require.Contains(t, fewer, word)
			}
			if c.says == nil {
				require.Empty(t, fewer)
			}
			require.Equal(t, c.most, most)
		})
	}
}

func TestTheLimitOfOpenFilesIsKnown(t *testing.T) {
	n, err := OpenFiles()
	require.NoError(t, err)
	require.Positive(t, n)
}
