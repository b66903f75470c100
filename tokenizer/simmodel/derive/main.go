package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"plimsoll/tokenizer/hf"
)

func main() {
	raw, err := io.ReadAll(os.Stdin)
	if err == nil {
		raw, err = derive(raw)
	}
	if err == nil {
		_, err = os.Stdout.Write(raw)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "derive:", err)
		os.Exit(1)
	}
}

// derive returns the file with another list of added tokens.
func derive(raw []byte) ([]byte, error) {
	var shape struct {
		AddedTokens json.RawMessage `json:"added_tokens"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return nil, err
	}
	var added []hf.SpecialToken
	if err := json.Unmarshal(shape.AddedTokens, &added); err != nil {
		return nil, err
	}
	next := uint32(0)
	for i := range added {
		switch added[i].Content {
		case "<think>", "</think>", "<tool_call>", "</tool_call>":
			added[i].Special = false
		}
		next = max(next, added[i].ID+1)
	}
	for i, content := range []string{"<tool_response>", "</tool_response>"} {
		added = append(added, hf.SpecialToken{ID: next + uint32(i), Content: content}) //nolint:gosec // two tokens
	}
	var list bytes.Buffer
	enc := json.NewEncoder(&list)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(added); err != nil {
		return nil, err
	}
	if bytes.Count(raw, shape.AddedTokens) != 1 {
		return nil, errors.New("the place of added_tokens is not clear")
	}
	return bytes.Replace(raw, shape.AddedTokens, bytes.TrimSpace(list.Bytes()), 1), nil
}
