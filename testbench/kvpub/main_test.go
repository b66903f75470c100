package kvpub_test

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is when the batches of these tests are made.
func at() time.Time { return time.Unix(1, 5e8) }

func open(tb testing.TB, cfg kvpub.Config, plan kvpub.Plan) *kvpub.Publisher {
	tb.Helper()
	p, err := kvpub.New(cfg, kvpub.Deps{Now: at, Plan: plan})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, p.Close()) })
	return p
}

// heard is a message as the library received it.
type heard struct {
	frames [][]byte
	err    error
}

func (h heard) seq(tb testing.TB) uint64 {
	tb.Helper()
	require.NoError(tb, h.err)
	require.Len(tb, h.frames, 3)
	return binary.BigEndian.Uint64(h.frames[1])
}

// peer is a socket of an independent implementation of ZMTP, read by a goroutine until it is closed.
type peer struct {
	socket zmq4.Socket
	heard  chan heard
}

func newPeer(tb testing.TB, of func(context.Context, ...zmq4.Option) zmq4.Socket) *peer {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	quiet := zmq4.WithLogger(log.New(io.Discard, "", 0))
	p := &peer{socket: of(ctx, quiet), heard: make(chan heard, 1024)}
	tb.Cleanup(func() {
		cancel()
		_ = p.socket.Close()
	})
	return p
}

// read begins to receive: after the socket is connected or bound.
func (p *peer) read() {
	go func() {
		for {
			m, err := p.socket.Recv()
			p.heard <- heard{m.Frames, err}
			if err != nil {
				return
			}
		}
	}()
}

// next is the next message; the test's own time limit bounds the wait.
func (p *peer) next(tb testing.TB) heard {
	tb.Helper()
	select {
	case h := <-p.heard:
		return h
	case <-tb.Context().Done():
		require.Fail(tb, "nothing came")
		return heard{}
	}
}

// seqs are the numbers of the next n batches.
func (p *peer) seqs(tb testing.TB, n int) []uint64 {
	tb.Helper()
	list := make([]uint64, n)
	for i := range list {
		list[i] = p.next(tb).seq(tb)
	}
	return list
}

// subscribe connects a SUB to the publisher and waits until its subscription has arrived.
func subscribe(tb testing.TB, p *kvpub.Publisher, topic string) *peer {
	tb.Helper()
	s := newPeer(tb, zmq4.NewSub)
	require.NoError(tb, s.socket.SetOption(zmq4.OptionSubscribe, topic))
	require.NoError(tb, s.socket.Dial(p.Endpoint()))
	s.read()
	require.NoError(tb, p.AwaitSubscribers(tb.Context(), 1))
	return s
}

// dealer connects a DEALER to the publisher's replay socket.
func dealer(tb testing.TB, p *kvpub.Publisher) *peer {
	tb.Helper()
	d := newPeer(tb, zmq4.NewDealer)
	require.NoError(tb, d.socket.Dial(p.ReplayEndpoint()))
	d.read()
	return d
}

func (p *peer) ask(tb testing.TB, start uint64) {
	tb.Helper()
	require.NoError(tb, p.socket.Send(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, start))))
}

// end is the number of a replay's last message.
const end = ^uint64(0)

// replayed reads the numbers of an answer up to its end. Each message is read from its last frame.
func (p *peer) replayed(tb testing.TB) []uint64 {
	tb.Helper()
	var list []uint64
	for {
		h := p.next(tb)
		require.NoError(tb, h.err)
		require.GreaterOrEqual(tb, len(h.frames), 3)
		seq := binary.BigEndian.Uint64(h.frames[len(h.frames)-2])
		list = append(list, seq)
		if seq == end {
			require.Empty(tb, h.frames[len(h.frames)-1])
			return list
		}
	}
}

// stored is a batch of one block.
func stored(hash uint64) []prefix.Event {
	return []prefix.Event{{Kind: prefix.Stored, Hashes: []uint64{hash}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4}}
}
