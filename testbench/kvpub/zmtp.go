package kvpub

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ZMTP 3.0 with the NULL mechanism (https://rfc.zeromq.org/spec/23), as much of it as a PUB and a ROUTER need.

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4

	greetingBytes = 64
	// What peers send is short: subscriptions, requests, commands.
	messageBytesMax  = 64 << 10
	messageFramesMax = 16
)

var errProtocol = errors.New("kvpub: the peer does not speak ZMTP 3 without security")

// shake exchanges greetings and READY commands with a peer and returns the type of its socket.
func shake(w io.Writer, r *bufio.Reader, kind string) (peer string, err error) {
	var greeting [greetingBytes]byte
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:32], "NULL")
	if _, err := w.Write(greeting[:]); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(r, greeting[:]); err != nil {
		return "", err
	}
	mechanism := strings.TrimRight(string(greeting[12:32]), "\x00")
	if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 || mechanism != "NULL" {
		return "", errProtocol
	}
	ready := property(property([]byte("\x05READY"), "Socket-Type", kind), "Identity", "")
	if _, err := w.Write(appendFrame(nil, flagCommand, ready)); err != nil {
		return "", err
	}
	m, err := readMessage(r)
	if err != nil {
		return "", err
	}
	name, body := m.command()
	if name != "READY" {
		return "", errProtocol
	}
	for len(body) > 0 {
		var key, value string
		if key, value, body, err = nextProperty(body); err != nil {
			return "", err
		}
		if strings.EqualFold(key, "Socket-Type") {
			return value, nil
		}
	}
	return "", errProtocol
}

// property appends a property of a READY command.
func property(b []byte, key, value string) []byte {
	b = append(append(b, byte(len(key))), key...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value))) //nolint:gosec // a word of ours
	return append(b, value...)
}

func nextProperty(b []byte) (key, value string, rest []byte, err error) {
	n := int(b[0])
	if len(b) < 1+n+4 {
		return "", "", nil, errProtocol
	}
	key, b = string(b[1:1+n]), b[1+n:]
	size := binary.BigEndian.Uint32(b)
	if uint64(size) > uint64(len(b)-4) {
		return "", "", nil, errProtocol
	}
	return key, string(b[4 : 4+size]), b[4+size:], nil
}

// appendFrame appends a frame with its head.
func appendFrame(b []byte, flags byte, body []byte) []byte {
	return append(appendHead(b, flags, len(body)), body...)
}

// appendHead appends the head of a frame of size bytes.
func appendHead(b []byte, flags byte, size int) []byte {
	if size < 1<<8 {
		return append(b, flags, byte(size))
	}
	return binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(size)) //nolint:gosec // a length
}

// headBytes is the length of a frame's head.
func headBytes(size int) int {
	if size < 1<<8 {
		return 2
	}
	return 9
}

// message is what a peer sent.
type message struct {
	isCommand bool
	frames    [][]byte
}

// command splits a command into its name and its body; no name if it is none.
func (m message) command() (name string, body []byte) {
	if !m.isCommand || len(m.frames[0]) == 0 || len(m.frames[0]) < 1+int(m.frames[0][0]) {
		return "", nil
	}
	n := int(m.frames[0][0])
	return string(m.frames[0][1 : 1+n]), m.frames[0][1+n:]
}

// readMessage reads the frames of one message or a command. It is an error to send more than a peer has reason to.
func readMessage(r *bufio.Reader) (message, error) {
	var m message
	total := uint64(0)
	for {
		flags, err := r.ReadByte()
		if err != nil {
			return m, err
		}
		size, err := readSize(r, flags)
		if err != nil {
			return m, err
		}
		if total += size; size > messageBytesMax || total > messageBytesMax || len(m.frames) == messageFramesMax {
			return m, fmt.Errorf("%w: a message of %d bytes and more", errProtocol, total)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return m, err
		}
		m.isCommand = m.isCommand || flags&flagCommand != 0
		m.frames = append(m.frames, body)
		if flags&flagMore == 0 {
			return m, nil
		}
	}
}

func readSize(r *bufio.Reader, flags byte) (uint64, error) {
	if flags&flagLong == 0 {
		short, err := r.ReadByte()
		return uint64(short), err
	}
	var long [8]byte
	_, err := io.ReadFull(r, long[:])
	return binary.BigEndian.Uint64(long[:]), err
}
