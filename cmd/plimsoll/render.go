package main

import (
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
			request, err := chat.ParseRequest(in)
			if err != nil {
				return fmt.Errorf("the standard input is no chat request: %w", err)
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
