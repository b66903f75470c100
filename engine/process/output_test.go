package process

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naiveLines cuts a text at once.
func naiveLines(text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		for len(line) > LineBytes {
			lines = append(lines, line[:LineBytes])
			line = line[LineBytes:]
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestLinesAreTheSameHoweverTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.Map(rapid.IntRange(0, 3*LineBytes), func(n int) string {
			return strings.Repeat("x", n)
		})).Draw(t, "lines"), "\n")
		var got []string
		l := NewLines(func(line string) { got = append(got, line) })
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			_, err := l.Write([]byte(rest[:n]))
			require.NoError(t, err)
			rest = rest[n:]
		}
		l.Flush()
		require.Equal(t, naiveLines(text), got)
	})
}

func TestLinesAreText(t *testing.T) {
	var got []string
	l := NewLines(func(line string) { got = append(got, line) })
	_, _ = l.Write([]byte("a\r\n\xff\xfe\n\r\n"))
	require.Equal(t, []string{"a", "\uFFFD", ""}, got)
}

func TestTheTailIsTheEnd(t *testing.T) {
	tail := NewTail(3)
	require.Empty(t, tail.String())
	for i := range 10 {
		tail.Add(strconv.Itoa(i))
	}
	require.Equal(t, "7\n8\n9", tail.String())
}

func TestTheLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.log")
	_, err := OpenLogFile(filepath.Join(path, "none"), 10)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	l, err := OpenLogFile(path, 10)
	require.NoError(t, err)
	read := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	_, err = l.Write([]byte("1234"))
	require.NoError(t, err)
	require.Equal(t, "before1234", read(path), "it is appended to")
	_, err = l.Write([]byte("5"))
	require.NoError(t, err)
	require.Equal(t, "5", read(path))
	require.Equal(t, "before1234", read(path+".1"))
	require.NoError(t, l.Rotate())
	require.NoError(t, l.Rotate(), "nothing to move")
	require.Empty(t, read(path))
	require.Equal(t, "5", read(path+".1"))
	_, err = l.Write([]byte("longer than all of it"))
	require.NoError(t, err)
	require.Equal(t, "longer than all of it", read(path), "one piece is not cut")
	require.NoError(t, os.Remove(path))
	require.NoError(t, l.Rotate(), "somebody took it away")
	require.NoError(t, l.Close())
}

func TestPortsAreFreeAndEachIsOnes(t *testing.T) {
	p := NewPorts(1)
	// The same draws again, with the first one busy.
	rng := rand.New(rand.NewPCG(1, 2))
	first := portsFrom + rng.IntN(p.until-portsFrom)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(first))
	require.NoError(t, err)
	seen := map[int]bool{}
	for range 200 {
		port, err := p.Take(t.Context())
		require.NoError(t, err)
		require.False(t, seen[port], "taken twice")
		require.NotEqual(t, first, port, "somebody listens there")
		require.Less(t, port, outgoingFrom())
		seen[port] = true
	}
	require.NoError(t, l.Close())
	for port := range seen {
		p.Return(port)
	}
	require.Empty(t, p.taken)
}

func TestFill(t *testing.T) {
	c := Command{
		Words:       []string{"x", "--port={port}", "{name}-{index}", "{device}", `{"a":{"b":1}}`, "{prot}"},
		Environment: []string{"CUDA_VISIBLE_DEVICES={device}"}, Folder: "/srv/{name}",
	}
	require.NoError(t, c.Validate())
	require.Equal(t, Command{
		Words:       []string{"x", "--port=81", "n-3", "GPU-1", `{"a":{"b":1}}`, "{prot}"},
		Environment: []string{"CUDA_VISIBLE_DEVICES=GPU-1"}, Folder: "/srv/n",
	}, c.Fill(Values{Port: 81, Index: 3, Name: "n", Device: "GPU-1"}))
	for want, bad := range map[string]Command{
		"there is no command": {},
		"has no {port}":       {Words: []string{"x", "--port", "80"}},
		"write NAME=value":    {Words: []string{"x", "{port}"}, Environment: []string{"X"}},
		"NUL":                 {Words: []string{"x", "{port}\x00"}},
	} {
		require.ErrorContains(t, bad.Validate(), want)
	}
	require.NoError(t, Command{Words: []string{"x"}, Environment: []string{"PORT={port}"}}.Validate())
}
