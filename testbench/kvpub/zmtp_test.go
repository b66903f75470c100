package kvpub

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a peer sends is read within bounds, and what is read is written back as the same bytes.
func FuzzReadMessage(f *testing.F) {
	for _, seed := range [][]byte{
		{0, 1, 1},
		{0, 3, 1, 'k', 'v'},
		{1, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 5},
		append([]byte{4, 10, 4}, "PING\x00\x0aabc"...),
		{2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		bytes.Repeat([]byte{1, 0}, 20),
		{},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMessage(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		total := 0
		for _, frame := range m.frames {
			total += len(frame)
		}
		require.NotEmpty(t, m.frames)
		require.LessOrEqual(t, len(m.frames), messageFramesMax)
		require.LessOrEqual(t, total, messageBytesMax)
		m.command()
		_, _ = newSubscriber(nil).hear(m, 1)
		if m.isCommand {
			return
		}
		var again []byte
		for i, frame := range m.frames {
			flags := byte(0)
			if i < len(m.frames)-1 {
				flags = flagMore
			}
			again = appendFrame(again, flags, frame)
		}
		back, err := readMessage(bufio.NewReader(bytes.NewReader(again)))
		require.NoError(t, err)
		require.Equal(t, m, back)
	})
}

// A READY command of any kind is read without harm.
func FuzzReady(f *testing.F) {
	f.Add(property([]byte{}, "Socket-Type", "SUB"))
	f.Add([]byte{200, 1})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		for len(body) > 0 {
			_, _, rest, err := nextProperty(body)
			if err != nil {
				return
			}
			require.Less(t, len(rest), len(body))
			body = rest
		}
	})
}
