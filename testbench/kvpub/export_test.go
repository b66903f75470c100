package kvpub

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ForRank makes the encoder write batches of a rank, and hashes as the bytes that are known of them.
func (e *Encoder) ForRank(rank int, digests map[uint64][]byte) *Encoder {
	e.rank = &rank
	if len(digests) > 0 {
		e.digest = func(h uint64) []byte { return digests[h] }
	}
	return e
}

// Raw is a connection that has shaken hands and is read byte by byte.
type Raw struct {
	Conn   net.Conn
	Reader *bufio.Reader
}

// DialRaw connects as a socket of a kind.
func DialRaw(tb testing.TB, endpoint, kind string) Raw {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", strings.TrimPrefix(endpoint, "tcp://"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	r := bufio.NewReader(conn)
	_, err = shake(conn, r, kind)
	require.NoError(tb, err)
	return Raw{conn, r}
}

// Batch reads a batch of any size and returns its number.
func (r Raw) Batch(tb testing.TB) uint64 {
	tb.Helper()
	var seq uint64
	for i := range 3 {
		flags, err := r.Reader.ReadByte()
		require.NoError(tb, err)
		require.Equal(tb, i < 2, flags&flagMore != 0)
		size, err := readSize(r.Reader, flags)
		require.NoError(tb, err)
		if i == 1 {
			require.NoError(tb, binary.Read(r.Reader, binary.BigEndian, &seq))
			continue
		}
		_, err = io.CopyN(io.Discard, r.Reader, int64(size))
		require.NoError(tb, err)
	}
	return seq
}
