package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/jinja"
)

func renderCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:      "render",
		Usage:     "print the prompt that the chat request on the standard input becomes",
		UsageText: "plimsoll render --tokenizer DIR [--template FILE] < chat-request.json",
		Flags: []cli.Flag{
			tokenizerDirFlag(),
			&cli.StringFlag{Name: "template", Usage: "chat template in `FILE`, in the place of the folder's own"},
		},
		Action: func(c *cli.Context) error {
			dir, err := tokenizerDir(c)
			if err != nil {
				return err
			}
			renderer, err := rendererOf(dir, c.String("template"))
			if err != nil {
				return err
			}
			in, err := io.ReadAll(t.in)
			if err != nil {
				return fmt.Errorf("the standard input cannot be read: %w", err)
			}
			request, err := parseChatRequest(in)
			if err != nil {
				return err
			}
			prompt, err := renderer.Render(request, time.Now)
			if err != nil {
				return err
			}
			_, err = io.WriteString(t.out, prompt)
			return err
		},
	}
}

// rendererOf reads a folder's special tokens and its chat template, or the template in a file of its own ("": none).
func rendererOf(dir, template string) (*chat.Renderer, error) {
	source, err := chat.Load(os.DirFS(dir), jinja.DefaultLimits())
	if err != nil && (template == "" || !errors.Is(err, chat.ErrNoTemplate)) {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if template != "" {
		source.ToolUse = nil // a given template is for all requests
		source.Template, err = chat.LoadFile(os.DirFS(filepath.Dir(template)), filepath.Base(template), jinja.DefaultLimits())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Dir(template), err)
		}
	}
	return chat.New(source.Template, source.Config())
}

// parseChatRequest takes what concerns the prompt from the body of a chat request.
func parseChatRequest(body []byte) (chat.Request, error) {
	var b struct {
		Messages             json.RawMessage `json:"messages"`
		Tools                json.RawMessage `json:"tools"`
		ToolChoice           json.RawMessage `json:"tool_choice"`
		Documents            json.RawMessage `json:"documents"`
		Kwargs               json.RawMessage `json:"chat_template_kwargs"`
		ChatTemplate         json.RawMessage `json:"chat_template"`
		AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
		ContinueFinalMessage *bool           `json:"continue_final_message"`
		ReasoningEffort      *string         `json:"reasoning_effort"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return chat.Request{}, fmt.Errorf("the standard input is no chat request: %w", err)
	}
	if b.AddGenerationPrompt == nil { // as the server takes it
		asks := b.ContinueFinalMessage == nil || !*b.ContinueFinalMessage
		b.AddGenerationPrompt = &asks
	}
	return chat.Request(b), nil
}
