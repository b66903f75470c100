package kvevents_test

import (
	"net"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/kvevents"
	"plimsoll/testbench/kvpub"
)

// idle connects as a publisher does and says nothing. It is closed when the channel is.
func idle(t *testing.T, address string) <-chan error {
	t.Helper()
	raw, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	c, err := zmq4.Open(raw, null.Security(), zmq4.Pub, nil, false, nil)
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() {
		for {
			if _, err := c.RecvMsg(); err != nil {
				closed <- err
				return
			}
		}
	}()
	return closed
}

// TestSilentPeersKeepNoEngineOut: where as many are connected as may be, the oldest that has never published makes room, and
// one that has stays.
func TestSilentPeersKeepNoEngineOut(t *testing.T) {
	cfg := kvevents.DefaultConfig()
	cfg.Bind, cfg.Endpoint, cfg.ConnectionsMax = true, "tcp://127.0.0.1:0", 4
	w := &world{truth: map[uint64]int{}}
	s := w.listen(t, cfg)
	w.l.await(t, "bound", func() bool { return w.l.state == engine.KVPartial })
	address := s.Addr().String()
	silent := make([]<-chan error, cfg.ConnectionsMax)
	for i := range silent {
		silent[i] = idle(t, address)
	}
	pub := kvpub.DefaultConfig()
	pub.Connect, pub.Endpoint, pub.ReplayEndpoint = true, "tcp://"+address, nil
	engineThere := newWorld(t, pub, kvpub.Calm{})
	engineThere.l = w.l
	require.NoError(t, engineThere.AwaitSubscribers(t.Context(), 1))
	require.Error(t, <-silent[0], "the oldest makes room")
	engineThere.store(10)
	engineThere.settled(t, engine.KVLive)

	for i := range 3 * cfg.ConnectionsMax { // each takes the place of the oldest of its like
		idle(t, address)
		if i < len(silent)-1 {
			require.Error(t, <-silent[i+1])
		}
	}
	engineThere.store(10)
	engineThere.settled(t, engine.KVLive)
}
