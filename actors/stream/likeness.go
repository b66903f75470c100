package stream

import (
	"encoding/binary"
	"hash/fnv"

	"plimsoll/actors/fleet"
)

const (
	// headTokens is the least that counts as a block of a prompt: engines whose blocks are smaller share every prompt's first token.
	headTokens = 16
	// headBytes is likewise of a chat that the engine renders: of its messages, as they came.
	headBytes = 64
)

// likeness is what an attempt's request has in common with others. It is worked out for those that fail.
func (m *machine) likeness(a *attempt) fleet.Likeness {
	l := fleet.Likeness{Tenant: m.req.Tenant, LoRA: m.req.LoRA, Several: a.place.Several}
	if m.raw(a.leg) {
		messages := m.req.Input.Chat.Messages
		l.Head, l.Whole = hashOf(messages[:min(len(messages), headBytes)]), hashOf(m.req.Input.ChatBody)
		return l
	}
	prompt := m.prompts[a.leg.prompt].IDs
	head := min(len(prompt), max(headTokens, int(a.place.BlockTokens)))
	l.Head, l.Whole = hashOfIDs(prompt[:head]), hashOfIDs(prompt)
	return l
}

func hashOf(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return h.Sum64()
}

func hashOfIDs(ids []uint32) uint64 {
	h := fnv.New64a()
	var b [4]byte
	for _, id := range ids {
		binary.LittleEndian.PutUint32(b[:], id)
		_, _ = h.Write(b[:])
	}
	return h.Sum64()
}
