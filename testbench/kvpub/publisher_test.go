package kvpub_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
	"plimsoll/testbench/recordings"
	"plimsoll/testbench/shared"
)

func TestSubscriberHearsBatches(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	p.Publish(stored(7)) // nobody hears it
	all, kv := subscribe(t, p, ""), newPeer(t, zmq4.NewSub)
	require.NoError(t, kv.socket.SetOption(zmq4.OptionSubscribe, "kv-"))
	require.NoError(t, kv.socket.Dial(p.Endpoint()))
	kv.read()
	other := newPeer(t, zmq4.NewSub)
	require.NoError(t, other.socket.SetOption(zmq4.OptionSubscribe, "other"))
	require.NoError(t, other.socket.Dial(p.Endpoint()))
	other.read()
	require.NoError(t, p.AwaitSubscribers(t.Context(), 2))
	p.Publish(stored(8))
	p.Publish(nil)
	for _, s := range []*peer{all, kv} {
		h := s.next(t)
		require.Equal(t, uint64(1), h.seq(t))
		require.Equal(t, "kv-events", string(h.frames[0]))
		require.Equal(t, encode(kvpub.DefaultConfig(), stored(8)...), h.frames[2])
		h = s.next(t)
		require.Equal(t, uint64(2), h.seq(t))
		require.Equal(t, encode(kvpub.DefaultConfig()), h.frames[2], "a batch without events")
	}
	require.Empty(t, other.heard)
	require.Equal(t, uint64(3), p.Stats().Batches)
	require.ErrorContains(t, p.AwaitSubscribers(cancelled(t), 3), "2 of 3")
}

func TestReplay(t *testing.T) {
	for name, layout := range map[string]kvpub.Layout{"with topic": kvpub.WithTopic, "without": kvpub.WithoutTopic} {
		t.Run(name, func(t *testing.T) {
			cfg := kvpub.DefaultConfig()
			cfg.BufferSteps, cfg.Layout = 4, layout
			p := open(t, cfg, kvpub.Calm{})
			d := dealer(t, p)
			d.ask(t, 0)
			require.Equal(t, []uint64{end}, d.replayed(t), "nothing was published")
			for hash := range uint64(3) {
				p.Publish(stored(hash))
			}
			d.ask(t, 0)
			require.Equal(t, []uint64{0, 1, 2, end}, d.replayed(t))
			for hash := range uint64(4) {
				p.Publish(stored(hash + 3))
			}
			d.ask(t, 0)
			require.Equal(t, []uint64{3, 4, 5, 6, end}, d.replayed(t), "the oldest are gone")
			d.ask(t, 5000)
			require.Equal(t, []uint64{end}, d.replayed(t))
			d.ask(t, 6)
			h := d.next(t)
			want := [][]byte{{}, []byte("kv-events"), binary.BigEndian.AppendUint64(nil, 6), encode(cfg, stored(6)...)}
			last := [][]byte{{}, {}, bytes.Repeat([]byte{0xff}, 8), {}}
			if layout == kvpub.WithoutTopic {
				want, last = append(want[:1:1], want[2:]...), last[1:]
			}
			require.Equal(t, want, h.frames)
			require.Equal(t, last, d.next(t).frames)
			require.Equal(t, uint64(5), p.Stats().Requests)
		})
	}
}

// A malformed request is not answered; the next one is.
func TestReplayIgnoresWhatIsNoRequest(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	p.Publish(stored(1))
	d := dealer(t, p)
	seq := binary.BigEndian.AppendUint64(nil, 0)
	for _, frames := range [][][]byte{
		{seq}, {nil, seq, nil}, {nil, seq[:7]}, {nil, append(seq, 0)}, {[]byte("x"), seq}, {nil}, {nil, nil, seq},
	} {
		require.NoError(t, d.socket.Send(zmq4.NewMsgFrom(frames...)))
	}
	d.ask(t, 0)
	require.Equal(t, []uint64{0, end}, d.replayed(t))
	require.Equal(t, uint64(1), p.Stats().Requests)
}

// The engine dials out to a router that is bound, and again when that connection has broken.
func TestConnects(t *testing.T) {
	s := newPeer(t, zmq4.NewSub)
	require.NoError(t, s.socket.SetOption(zmq4.OptionSubscribe, "kv-events"))
	require.NoError(t, s.socket.Listen("tcp://127.0.0.1:0"))
	cfg := kvpub.DefaultConfig()
	cfg.Endpoint, cfg.Connect, cfg.Redial = "tcp://"+s.socket.Addr().String(), true, 1
	p := open(t, cfg, kvpub.Calm{})
	require.Equal(t, cfg.Endpoint, p.Endpoint())
	s.read()
	require.NoError(t, p.AwaitSubscribers(t.Context(), 1))
	p.Publish(stored(1))
	require.Equal(t, []uint64{0}, s.seqs(t, 1))
	p.End()
	p.Publish(stored(2))
	p.Begin()
	require.ErrorIs(t, s.next(t).err, io.EOF)
	s.read()
	require.NoError(t, p.AwaitSubscribers(t.Context(), 1))
	p.Publish(stored(3))
	require.Equal(t, []uint64{0}, s.seqs(t, 1), "a new life counts from 0")
}

func TestLives(t *testing.T) {
	p := open(t, kvpub.SGLangConfig(), kvpub.Calm{})
	d := dealer(t, p)
	p.Publish(stored(1))
	d.ask(t, 0)
	require.Equal(t, []uint64{0, 1, end}, d.replayed(t), "the first batch of an SGLang empties the cache")
	s := subscribe(t, p, "")
	p.End()
	require.Error(t, s.next(t).err)
	require.Error(t, d.next(t).err)
	p.Publish(stored(2))
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.ReplayEndpoint(), "tcp://")) //nolint:noctx // closed by the other side at once
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err, "nobody serves")
	require.NoError(t, conn.Close())
	p.Begin()
	require.Equal(t, uint64(1), p.NextSeq())
	d = dealer(t, p)
	d.ask(t, 0)
	require.Equal(t, []uint64{0, end}, d.replayed(t))
	require.Equal(t, uint64(2), p.Stats().Lives)
}

func TestSkipLeavesAHole(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	s := subscribe(t, p, "")
	p.Publish(stored(1))
	p.Skip(2)
	p.Publish(stored(2))
	require.Equal(t, []uint64{0, 3}, s.seqs(t, 2))
	d := dealer(t, p)
	d.ask(t, 1)
	require.Equal(t, []uint64{3, end}, d.replayed(t))
}

// What a subscriber does not take is dropped once HWM batches wait: the publisher goes on, the hole is seen, and the others
// miss nothing.
func TestSlowSubscriberLosesBatches(t *testing.T) {
	cfg := kvpub.DefaultConfig()
	cfg.HWM = 8
	p := open(t, cfg, kvpub.Calm{})
	slow := kvpub.DialRaw(t, p.Endpoint(), "SUB")
	_, err := slow.Conn.Write([]byte{0, 1, 1}) // a subscription to all
	require.NoError(t, err)
	require.NoError(t, p.AwaitSubscribers(t.Context(), 1))
	payload := make([]byte, 1<<20)
	for p.Stats().Overruns == 0 {
		p.PublishPayload(payload)
	}
	taken := p.NextSeq() - 1
	for seq := range taken {
		require.Equal(t, seq, slow.Batch(t))
	}
	for lost := uint64(0); p.Stats().Overruns > lost; { // until it is seen that there is room again
		lost = p.Stats().Overruns
		p.PublishPayload(payload)
	}
	require.Equal(t, taken+p.Stats().Overruns, slow.Batch(t), "the hole")
}

// What goes over the wire is, byte for byte, what was recorded from a real engine that sent the same payloads.
func TestBytesOnTheWire(t *testing.T) {
	for _, name := range recordings.Glob(t, "*.events.jsonl*") {
		session, _, _ := strings.Cut(filepath.Base(name), ".events.jsonl")
		t.Run(filepath.Base(filepath.Dir(name))+"/"+session, func(t *testing.T) {
			p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
			c := kvpub.DialRaw(t, p.Endpoint(), "SUB")
			_, err := c.Conn.Write([]byte{0, 1, 1})
			require.NoError(t, err)
			require.NoError(t, p.AwaitSubscribers(t.Context(), 1))
			var want []byte
			last := ^uint64(0)
			for _, f := range shared.Lines[recordedFrame](t, strings.Replace(name, ".events.jsonl", ".frames.jsonl", 1)) {
				var parts [3][]byte
				for i, part := range f.Frames {
					parts[i], err = hex.DecodeString(part)
					require.NoError(t, err)
				}
				seq := binary.BigEndian.Uint64(parts[1])
				if seq <= last && last != ^uint64(0) {
					break // a second life is another connection
				}
				p.Skip(seq - p.NextSeq())
				last = seq
				p.PublishPayload(parts[2])
				for i, part := range parts {
					want = frame(want, part, i < 2)
				}
			}
			got := make([]byte, len(want))
			_, err = io.ReadFull(c.Reader, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
		})
	}
}

// frame appends a ZMTP frame.
func frame(b, body []byte, more bool) []byte {
	flags := byte(0)
	if more {
		flags = 1
	}
	if len(body) < 256 {
		b = append(b, flags, byte(len(body)))
	} else {
		b = binary.BigEndian.AppendUint64(append(b, flags|2), uint64(len(body)))
	}
	return append(b, body...)
}

// A replay of a recorded session has the frames that were recorded of one.
func TestRecordedReplay(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	for _, f := range shared.Lines[recordedFrame](t, filepath.Join(recordings.Own(t), "blocks64.frames.jsonl.gz")) {
		payload, err := hex.DecodeString(f.Frames[2])
		require.NoError(t, err)
		p.PublishPayload(payload)
	}
	d := dealer(t, p)
	d.ask(t, p.NextSeq()-1)
	want := shared.Lines[recordedFrame](t, filepath.Join(recordings.Own(t), "blocks64.replay-from-last-1.frames.jsonl"))
	var got []recordedFrame
	for range 2 {
		var f recordedFrame
		for _, part := range d.next(t).frames {
			f.Frames = append(f.Frames, hex.EncodeToString(part))
		}
		got = append(got, f)
	}
	require.Equal(t, want[len(want)-2:], got)
}

func TestMistakes(t *testing.T) {
	for want, change := range map[string]func(*kvpub.Config){
		`"*:5557" is not`:   func(c *kvpub.Config) { c.Endpoint = "*:5557" },
		`"ipc://x" is not`:  func(c *kvpub.Config) { c.ReplayEndpoint = new("ipc://x") },
		"StoredFields is 6": func(c *kvpub.Config) { c.StoredFields = 6 },
		"HWM is 0":          func(c *kvpub.Config) { c.HWM = 0 },
		"Redial is 0s":      func(c *kvpub.Config) { c.Redial = 0 },
		"unknown dialect":   func(c *kvpub.Config) { c.Dialect = kvpub.NumDialects },
	} {
		cfg := kvpub.DefaultConfig()
		change(&cfg)
		_, err := kvpub.New(cfg, kvpub.Deps{Now: at, Plan: kvpub.Calm{}})
		require.ErrorContains(t, err, want)
	}
	_, err := kvpub.New(kvpub.DefaultConfig(), kvpub.Deps{})
	require.ErrorContains(t, err, "Plan")
	busy := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	cfg := kvpub.DefaultConfig()
	cfg.Endpoint = busy.Endpoint()
	_, err = kvpub.New(cfg, kvpub.Deps{Now: at, Plan: kvpub.Calm{}})
	require.ErrorContains(t, err, "in use")
}

// Peers that do not speak the protocol are cut, and hold up nobody.
func TestStrangers(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a stranger that talks a lot\r\n\r\n", strings.Repeat("\xff", 64)} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.Endpoint(), "tcp://")) //nolint:noctx // closed by the other side
		require.NoError(t, err)
		_, err = io.WriteString(conn, first)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, conn) // until it is cut
		require.NoError(t, conn.Close())
	}
	wrong := kvpub.DialRaw(t, p.Endpoint(), "DEALER")
	_, err := wrong.Reader.ReadByte()
	require.Error(t, err, "a DEALER has no business with a PUB")
	huge := kvpub.DialRaw(t, p.Endpoint(), "SUB")
	_, err = huge.Conn.Write([]byte{2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	require.NoError(t, err)
	_, err = huge.Reader.ReadByte()
	require.Error(t, err, "a frame of 2^63 bytes")
	s := subscribe(t, p, "")
	p.Publish(stored(1))
	require.Equal(t, []uint64{0}, s.seqs(t, 1))
}

func TestPing(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	c := kvpub.DialRaw(t, p.Endpoint(), "SUB")
	_, err := c.Conn.Write(append([]byte{4, 10, 4}, "PING\x00\x0aabc"...))
	require.NoError(t, err)
	got := make([]byte, 10)
	_, err = io.ReadFull(c.Reader, got)
	require.NoError(t, err)
	require.Equal(t, append([]byte{4, 8, 4}, "PONGabc"...), got)
}

// A newer peer subscribes by commands.
func TestSubscribeByCommand(t *testing.T) {
	p := open(t, kvpub.DefaultConfig(), kvpub.Calm{})
	c := kvpub.DialRaw(t, p.Endpoint(), "SUB")
	_, err := c.Conn.Write(append([]byte{4, 12, 9}, "SUBSCRIBEkv"...))
	require.NoError(t, err)
	require.NoError(t, p.AwaitSubscribers(t.Context(), 1))
	p.Publish([]prefix.Event{{Kind: prefix.Cleared}})
	require.Zero(t, c.Batch(t))
}
