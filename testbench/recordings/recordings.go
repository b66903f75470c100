package recordings

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"plimsoll/scoring/prefix"
)

// Model is the base model of every session.
const Model = "tiny"

// Hash is an engine's block hash: an integer of either sign, or bytes, of which the last eight count.
type Hash uint64

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hash) UnmarshalJSON(data []byte) error {
	var digest struct{ Bytes string }
	if json.Unmarshal(data, &digest) == nil {
		raw, err := hex.DecodeString(digest.Bytes)
		if err != nil {
			return err
		}
		if len(raw) < 8 {
			return fmt.Errorf("a digest of %d bytes", len(raw))
		}
		*h = Hash(binary.BigEndian.Uint64(raw[len(raw)-8:]))
		return nil
	}
	if u, err := strconv.ParseUint(string(data), 10, 64); err == nil {
		*h = Hash(u)
		return nil
	}
	i, err := strconv.ParseInt(string(data), 10, 64)
	*h = Hash(i)
	return err
}

// Message is one published batch: time, events, rank.
type Message struct {
	Seq   uint64            `json:"seq"`
	Batch []json.RawMessage `json:"batch"`
}

// Events are those of the batch.
func (m Message) Events() (events []Event, err error) {
	err = json.Unmarshal(m.Batch[1], &events)
	return events, err
}

// Event is one event of a batch, with the fields that the sessions have.
type Event struct {
	Type      string   `json:"type"`
	Hashes    []Hash   `json:"block_hashes"`
	Parent    *Hash    `json:"parent_block_hash"`
	Tokens    []uint32 `json:"token_ids"`
	BlockSize int      `json:"block_size"`
	LoRA      *string  `json:"lora_name"`
	Medium    *string  `json:"medium"`
	ExtraKeys [][]any  `json:"extra_keys"`
	Group     int      `json:"group_idx"`
	SpecKind  string   `json:"kv_cache_spec_kind"`
	Window    int      `json:"kv_cache_spec_sliding_window"`
}

// Request is one request and what the engine said of it.
type Request struct {
	Step    string            `json:"step"`
	Headers map[string]string `json:"headers"`
	Request struct {
		Model          string          `json:"model"`
		Prompt         json.RawMessage `json:"prompt"`
		TokenIDs       []uint32        `json:"token_ids"`
		N              *int            `json:"n"`
		CacheSalt      string          `json:"cache_salt"`
		PromptLogprobs *int            `json:"prompt_logprobs"`
	} `json:"request"`
	PromptTokenIDs []uint32        `json:"prompt_token_ids"`
	CachedTokens   *int            `json:"cached_tokens"` // nil: the request failed
	Concurrent     any             `json:"concurrent"`    // names those that were sent together
	EventsBefore   int             `json:"events_before"` // messages before the request was sent
	SeqBefore      json.RawMessage `json:"seq_before"`    // a number, or one a rank
	SeqAfter       json.RawMessage `json:"seq_after"`
	Restarted      bool            `json:"restarted"` // the engine was, before the request
}

// Tokens is the prompt.
func (r *Request) Tokens() (tokens []uint32, err error) {
	switch {
	case r.PromptTokenIDs != nil:
		return r.PromptTokenIDs, nil
	case len(r.Request.Prompt) > 0:
		err = json.Unmarshal(r.Request.Prompt, &tokens)
		return tokens, err
	default:
		return r.Request.TokenIDs, nil
	}
}

// Space is what the prompt's blocks are chained from.
func (r *Request) Space() prefix.Namespace {
	space := prefix.Namespace{Model: Model, Salt: r.Request.CacheSalt}
	if r.Request.Model != "" && r.Request.Model != Model {
		space.LoRA = r.Request.Model
	}
	return space
}
