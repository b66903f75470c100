package kvevents

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tinylib/msgp/msgp"

	"plimsoll/engine"
)

// appendStore appends a store of n blocks of 16 tokens, or its removals one event a block, in map form as vLLM 0.32 sends
// them.
func appendStore(b []byte, first uint64, n int) []byte {
	const blockTokens = 16
	b = msgp.AppendMapHeader(b, 11)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "BlockStored")
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "block_hashes"), uint32(n))
	for i := range n {
		b = msgp.AppendUint64(b, (first+uint64(i))*0x9e3779b97f4a7c15)
	}
	b = msgp.AppendNil(msgp.AppendString(b, "parent_block_hash"))
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "token_ids"), uint32(n*blockTokens))
	for i := range n * blockTokens {
		b = msgp.AppendUint32(b, uint32(i*7919)%150_000)
	}
	b = msgp.AppendInt(msgp.AppendString(b, "block_size"), blockTokens)
	b = msgp.AppendNil(msgp.AppendString(b, "lora_id"))
	b = msgp.AppendString(msgp.AppendString(b, "medium"), "GPU")
	b = msgp.AppendNil(msgp.AppendString(b, "lora_name"))
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "extra_keys"), uint32(n))
	for range n {
		b = msgp.AppendNil(b)
	}
	b = msgp.AppendInt(msgp.AppendString(b, "group_idx"), 0)
	return msgp.AppendString(msgp.AppendString(b, "kv_cache_spec_kind"), "full_attention")
}

func appendRemoval(b []byte, hash uint64) []byte {
	b = msgp.AppendMapHeader(b, 4)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "BlockRemoved")
	b = msgp.AppendUint64(msgp.AppendArrayHeader(msgp.AppendString(b, "block_hashes"), 1), hash*0x9e3779b97f4a7c15)
	b = msgp.AppendString(msgp.AppendString(b, "medium"), "GPU")
	return msgp.AppendInt(msgp.AppendString(b, "group_idx"), 0)
}

// benchBatch is a batch of one store of n blocks, or of n stores and removals of one block each.
func benchBatch(n int, fine bool) []byte {
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1.8e9)
	if !fine {
		return msgp.AppendInt(appendStore(msgp.AppendArrayHeader(b, 1), 1, n), 0)
	}
	b = msgp.AppendArrayHeader(b, uint32(2*n))
	for i := range uint64(n) {
		b = appendRemoval(appendStore(b, i, 1), i)
	}
	return msgp.AppendInt(b, 0)
}

// CPUSeconds is what the process has used, in user and system mode: on a machine that others use as well, wall time tells
// of them.
func CPUSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// BenchmarkDecode: bulk is one store of 512 blocks a batch, fine 32 stores and 32 removals of one block each.
func BenchmarkDecode(b *testing.B) {
	for name, c := range map[string]struct {
		payload []byte
		blocks  int
	}{
		"bulk": {benchBatch(512, false), 512},
		"fine": {benchBatch(32, true), 64},
	} {
		b.Run("form="+name, func(b *testing.B) {
			var d Decoder
			_, err := d.Decode(c.payload)
			require.NoError(b, err)
			b.ReportAllocs()
			b.SetBytes(int64(len(c.payload)))
			cpu := CPUSeconds()
			for b.Loop() {
				if _, err := d.Decode(c.payload); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(c.blocks)/(CPUSeconds()-cpu)/1e6, "Mblocks/cpu-s")
		})
	}
}

// BenchmarkMachine: batches in order, decoded and emitted.
func BenchmarkMachine(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprintf("events=%d", 2*n), func(b *testing.B) {
			payload := benchBatch(n, true)
			m := newMachine(DefaultConfig().limits(), func() uint64 { return 0 }, func(engine.KVBatch) {})
			m.limits.replay = false
			now := time.Unix(0, 0)
			m.Step(now, input{kind: connected})
			b.ReportAllocs()
			seq := uint64(0)
			cpu := CPUSeconds()
			for b.Loop() {
				binary.BigEndian.PutUint32(payload[3:], uint32(seq)) // another time of making
				m.Step(now, input{kind: live, seq: seq, payload: payload})
				seq++
			}
			require.Equal(b, engine.KVLive, m.state)
			b.ReportMetric(float64(b.N)/(CPUSeconds()-cpu)/1e6, "Mbatches/cpu-s")
		})
	}
}

// TestDecodeAllocatesNothing: on a steady stream the buffers are there.
func TestDecodeAllocatesNothing(t *testing.T) {
	var d Decoder
	for _, payload := range [][]byte{benchBatch(512, false), benchBatch(32, true)} {
		_, err := d.Decode(payload)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = d.Decode(payload) }))
	}
}
