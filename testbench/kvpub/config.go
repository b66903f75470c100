package kvpub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

// Form is how an event is written.
type Form uint8

// Forms of an event.
const (
	Map   Form = iota // keys and values: vLLM from 0.24, SGLang from 0.5.19 or so
	Array             // values in a fixed order: before that

	NumForms
)

// Dialect is whose events they are.
type Dialect uint8

// Dialects.
const (
	VLLM   Dialect = iota
	SGLang         // signed hashes, a salt of its own key, an AllBlocksCleared at the start of each life

	NumDialects
)

// HashForm is how vLLM writes a block's hash.
type HashForm uint8

// Forms of a hash.
const (
	IntHashes      HashForm = iota // 64 bits
	SHA256Hashes                   // 32 bytes, whose last 8 are the integer's
	XXH3x128Hashes                 // 16 bytes, likewise

	NumHashForms
)

// Layout is how many frames a replayed batch has, after the empty one.
type Layout uint8

// Layouts of replay.
const (
	WithTopic    Layout = iota // topic, sequence number, payload: vLLM from 0.25 or so
	WithoutTopic               // sequence number, payload: vLLM before, SGLang

	NumLayouts
)

// Newest is the number of StoredFields of today's vLLM.
const Newest = 12

// Config describes one publisher: one data-parallel rank of an engine.
type Config struct {
	// Endpoint is where batches are published, as tcp://HOST:PORT; HOST * is every interface, PORT 0 any free port.
	Endpoint string
	// Connect dials out to a subscriber that is bound to Endpoint, and again whenever that connection breaks.
	Connect bool
	// Redial is how long to wait before dialling again.
	Redial time.Duration
	// ReplayEndpoint is where replays are answered; nil: nowhere.
	ReplayEndpoint *string
	Topic          string
	Rank           *int // data-parallel rank; nil: batches do not say
	Dialect        Dialect
	Form           Form
	Hashes         HashForm // of VLLM
	Layout         Layout
	// StoredFields says how old a vLLM in array form is: by how many values a BlockStored has at most, its type included.
	// 7: up to the medium (0.11), 8: the adapter's name, 9: extra keys, 10: the group, Newest: the kind of attention.
	StoredFields int
	BufferSteps  int // batches that can be replayed
	HWM          int // batches that wait for one subscriber
	Peers        int // connections at once, of both sockets; more are closed
}

// DefaultConfig is a vLLM 0.32 on free ports of the loopback interface.
func DefaultConfig() Config {
	replay := "tcp://127.0.0.1:0"
	rank := 0
	return Config{
		Endpoint: "tcp://127.0.0.1:0", ReplayEndpoint: &replay, Redial: 100 * time.Millisecond, Topic: "kv-events", Rank: &rank,
		StoredFields: Newest, BufferSteps: 10_000, HWM: 100_000, Peers: 256,
	}
}

// SGLangConfig is an SGLang 0.5.21 on free ports of the loopback interface.
func SGLangConfig() Config {
	cfg := DefaultConfig()
	cfg.Dialect, cfg.Layout = SGLang, WithoutTopic
	return cfg
}

// Validate says what is wrong, all of it.
func (c Config) Validate() error {
	var errs []error
	if _, err := address(c.Endpoint); err != nil {
		errs = append(errs, err)
	}
	if c.ReplayEndpoint != nil {
		if _, err := address(*c.ReplayEndpoint); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Dialect >= NumDialects || c.Form >= NumForms || c.Hashes >= NumHashForms || c.Layout >= NumLayouts {
		errs = append(errs, errors.New("kvpub: an unknown dialect, form or layout"))
	}
	if c.StoredFields < 7 || c.StoredFields > Newest {
		errs = append(errs, fmt.Errorf("kvpub: StoredFields is %d, it must be from 7 to %d", c.StoredFields, Newest))
	}
	for name, value := range map[string]int{"BufferSteps": c.BufferSteps, "HWM": c.HWM, "Peers": c.Peers} {
		if value < 1 {
			errs = append(errs, fmt.Errorf("kvpub: %s is %d, at least 1 is needed", name, value))
		}
	}
	if c.Redial <= 0 {
		errs = append(errs, fmt.Errorf("kvpub: Redial is %s, it must be above 0", c.Redial))
	}
	return errors.Join(errs...)
}

// address is the HOST:PORT of an endpoint.
func address(endpoint string) (string, error) {
	at, ok := strings.CutPrefix(endpoint, "tcp://")
	host, port, err := net.SplitHostPort(at)
	if !ok || err != nil {
		return "", fmt.Errorf("kvpub: the endpoint %q is not of the form tcp://HOST:PORT", endpoint)
	}
	if host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}

// endpointOf is the endpoint of a listener; * stands for every interface.
func endpointOf(l net.Listener) string {
	host, port, _ := net.SplitHostPort(l.Addr().String()) // an address of the net package
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "*"
	}
	return "tcp://" + net.JoinHostPort(host, port)
}

// Deps are what a publisher is given. All are required.
type Deps struct {
	Now  func() time.Time // stamps batches; called under the publisher's lock
	Plan Plan             // what goes wrong
}

// digest is the function that spells a hash as bytes; nil where it is an integer. The bytes before the last eight are made
// up, the same for the same hash.
func (f HashForm) digest() func(uint64) []byte {
	size := 0
	switch f {
	case IntHashes, NumHashForms:
		return nil
	case SHA256Hashes:
		size = 32
	case XXH3x128Hashes:
		size = 16
	}
	return func(hash uint64) []byte {
		bytes := make([]byte, 0, size)
		for seed := uint64(0); len(bytes) < size-8; seed++ {
			bytes = binary.BigEndian.AppendUint64(bytes, xxh3.HashSeed(binary.BigEndian.AppendUint64(nil, hash), seed))
		}
		return binary.BigEndian.AppendUint64(bytes, hash)
	}
}
