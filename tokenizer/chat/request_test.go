package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/chat"
)

// TestParseRequest: a prompt asks for an answer unless the body says otherwise or carries on with the last message.
func TestParseRequest(t *testing.T) {
	for body, asks := range map[string]bool{
		`{"messages":[],"model":"m"}`:                                   true,
		`{"messages":[],"continue_final_message":true}`:                 false,
		`{"messages":[],"continue_final_message":false}`:                true,
		`{"messages":[],"add_generation_prompt":false}`:                 false,
		`{"messages":[],"add_generation_prompt":null,"documents":[{}]}`: true,
	} {
		r, err := chat.ParseRequest([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, asks, *r.AddGenerationPrompt, body)
		require.JSONEq(t, `[]`, string(r.Messages))
	}
	_, err := chat.ParseRequest([]byte(`{"messages":`))
	require.Error(t, err)
	_, err = chat.ParseRequest([]byte(`{"add_generation_prompt":1}`))
	require.Error(t, err)
}
