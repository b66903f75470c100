package kvevents

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// greeting is that of a ZMTP 3.0 peer without security.
func greeting() []byte {
	b := make([]byte, greetingBytes)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return b
}

// ready is the command that ends the handshake of a socket of a kind.
func ready(kind string) []byte {
	body := append([]byte{5}, "READY"...)
	body = append(append(body, 11), "Socket-Type"...)
	body = append(binary.BigEndian.AppendUint32(body, uint32(len(kind))), kind...)
	return append([]byte{4, byte(len(body))}, body...)
}

func frame(flags byte, body []byte) []byte {
	if len(body) < 256 {
		return append([]byte{flags, byte(len(body))}, body...)
	}
	return append(binary.BigEndian.AppendUint64([]byte{flags | frameLong}, uint64(len(body))), body...)
}

// claim is the header of a long frame without its body.
func claim(flags byte, length uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{flags | frameLong}, length)
}

// peer is a connection that says what it is given, a few bytes at a time, and takes whatever it hears.
func peer(t *testing.T, at int, says []byte) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	require.NoError(t, near.SetDeadline(time.Now().Add(time.Minute)))
	const shakes = greetingBytes + 2 + 38 // what a SUB has to say before it is told of the end
	shaken := make(chan struct{})
	go func() {
		_, _ = io.CopyN(io.Discard, far, shakes)
		close(shaken)
		_, _ = io.Copy(io.Discard, far)
	}()
	go func() {
		for len(says) > 0 {
			n := min(at, len(says))
			if _, err := far.Write(says[:n]); err != nil {
				return
			}
			says = says[n:]
		}
		<-shaken
		_ = far.Close()
	}()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near
}

// TestBounded: messages up to the bound pass whole, whatever pieces they come in; a longer one ends the connection before
// anything is made for it.
func TestBounded(t *testing.T) {
	const most = 1000
	hello := append(greeting(), ready("PUB")...)
	long := bytes.Repeat([]byte{7}, 600)
	message := func(parts ...[]byte) []byte {
		var out []byte
		for i, p := range parts {
			flags := byte(frameMore)
			if i == len(parts)-1 {
				flags = 0
			}
			out = append(out, frame(flags, p)...)
		}
		return out
	}
	for name, c := range map[string]struct {
		says  []byte
		want  int // messages that arrive
		fails error
	}{
		"messages":                  {append(message([]byte("t"), []byte("12345678"), long), message(nil, nil, nil)...), 2, io.EOF},
		"just fits":                 {message(long, long[:400]), 1, io.EOF},
		"one byte more":             {message(long, long[:401]), 0, errTooLong},
		"a length of no end":        {claim(0, 1<<63), 0, errTooLong},
		"a length of 4 GB":          {append(frame(frameMore, []byte("t")), claim(0, 1<<32)...), 0, errTooLong},
		"parts without end":         {bytes.Repeat(frame(frameMore, nil), 100), 0, errTooLong},
		"a command that is too big": {claim(4, 1<<20), 0, errTooLong},
		"cut":                       {message(long, long)[:300], 0, io.ErrUnexpectedEOF},
	} {
		for _, at := range []int{1, 7, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				says := append(bytes.Clone(hello), c.says...)
				conn, err := zmq4.Open(newBounded(peer(t, at, says), most), null.Security(), zmq4.Sub, nil, false, nil)
				require.NoError(t, err)
				got := 0
				for {
					if _, err = conn.RecvMsg(); err != nil {
						break
					}
					got++
				}
				require.ErrorIs(t, err, c.fails)
				require.Equal(t, c.want, got)
			})
		}
	}
	t.Run("handshake", func(t *testing.T) {
		for _, says := range [][]byte{
			append(greeting(), claim(4, 1<<62)...), bytes.Repeat([]byte{0xff}, 200), greeting()[:20],
			append(greeting(), ready("PULL")...), []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		} {
			conn := peer(t, 5, says)
			require.NoError(t, conn.SetDeadline(time.Now().Add(50*time.Millisecond)))
			_, err := zmq4.Open(newBounded(conn, most), null.Security(), zmq4.Sub, nil, false, nil)
			require.Error(t, err)
		}
	})
}

// TestGarbledHandshake: whatever lengths the command that ends a handshake claims, the connection fails and nothing else.
func TestGarbledHandshake(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Endpoint = "tcp://127.0.0.1:1"
	s, err := New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Entropy: func() uint64 { return 0 }})
	require.NoError(t, err)
	whole := ready("PUB")
	command := len(whole) - len("\x0bSocket-Type") - 4 - len("PUB") // where the properties begin
	for cut := 2; cut < len(whole); cut++ {
		for _, claimed := range []byte{0, 1, 5, 11, 12, byte(len(whole)), 255} { // the length of the first property's name
			says := bytes.Clone(whole[:cut])
			says[1] = byte(cut - 2)
			if cut > command {
				says[command] = claimed
			}
			for _, server := range []bool{false, true} {
				_, _, err := s.shake(t.Context(), peer(t, 1<<20, append(greeting(), says...)), zmq4.Sub, server)
				require.Error(t, err, "%q", says)
			}
		}
	}
}

// TestLongPayloadsWait: of long payloads no more wait for the machine than BufferBytesMax allows; others do not wait for them.
func TestLongPayloadsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Endpoint = "tcp://127.0.0.1:1"
		cfg.MessageBytesMax, cfg.BufferBytesMax = 100_000, 350_000
		s, err := New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Entropy: func() uint64 { return 0 }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := newFeed(ctx, s)
		k := &keeper{feed: f, machine: newMachine(cfg.limits(), s.deps.Entropy, func(engine.KVBatch) {})}
		payload := make([]byte, cfg.MessageBytesMax)
		all, passed := 10, 0
		go func() {
			for range all {
				f.tell(news{kind: told, payload: payload})
				passed++
			}
		}()
		synctest.Wait()
		require.Equal(t, 3, passed)
		require.Len(t, f.out, 3)
		require.True(t, f.tell(news{kind: noise}))
		require.Len(t, f.out, 4)
		go func() { _ = k.run(ctx) }()
		synctest.Wait()
		require.Equal(t, all, passed)
		require.Empty(t, f.large)
	})
}

// TestSilentPeer: a peer that says nothing holds a connection up no longer than ConnectTimeout, and none that ctx ended.
func TestSilentPeer(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Endpoint = "tcp://127.0.0.1:1"
	cfg.ConnectTimeout = 10 * time.Millisecond
	deps := Deps{Log: slog.New(slog.DiscardHandler), Entropy: func() uint64 { return 0 }}
	s, err := New(cfg, deps)
	require.NoError(t, err)
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	_, _, err = s.shake(t.Context(), near, zmq4.Sub, false)
	require.ErrorContains(t, err, "timeout")

	cfg.ConnectTimeout = time.Hour
	s, err = New(cfg, deps)
	require.NoError(t, err)
	near, far = net.Pipe()
	defer func() { _ = far.Close() }()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = s.shake(ctx, near, zmq4.Sub, false)
	require.Error(t, err)
}

// TestParse: a message is read from its end.
func TestParse(t *testing.T) {
	number := []byte{0, 0, 0, 0, 0, 0, 1, 2}
	for name, c := range map[string]struct {
		parts [][]byte
		ok    bool
	}{
		"live":                 {[][]byte{[]byte("topic"), number, []byte("p")}, true},
		"replay without topic": {[][]byte{nil, number, []byte("p")}, true},
		"replay with topic":    {[][]byte{nil, []byte("topic"), number, []byte("p")}, true},
		"without topic":        {[][]byte{number, []byte("p")}, true},
		"number too short":     {[][]byte{[]byte("topic"), number[1:], []byte("p")}, false},
		"one part":             {[][]byte{number}, false},
		"none":                 {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			seq, payload, ok := parse(c.parts)
			require.Equal(t, c.ok, ok)
			if ok {
				require.Equal(t, uint64(0x102), seq)
				require.Equal(t, []byte("p"), payload)
			}
		})
	}
}
