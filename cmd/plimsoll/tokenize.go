package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"plimsoll/tokenizer/hf"
)

func tokenizeCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:      "tokenize",
		Usage:     "turn the text on the standard input into token IDs, or back",
		UsageText: "plimsoll tokenize --tokenizer DIR [--add-special] < text\nplimsoll tokenize --tokenizer DIR --decode < ids.json",
		Flags: []cli.Flag{
			tokenizerDirFlag(),
			&cli.BoolFlag{Name: "add-special", Usage: "add the tokens that the tokenizer puts around a text, such as BOS"},
			&cli.BoolFlag{Name: "decode", Usage: "read a JSON array of IDs and print its text, special tokens included"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("decode") && c.Bool("add-special") {
				return usageError{errors.New("--add-special has no meaning with --decode: leave one of them out")}
			}
			dir, err := tokenizerDir(c)
			if err != nil {
				return err
			}
			tok, err := hf.LoadDir(os.DirFS(dir), dir)
			if err != nil {
				return err
			}
			defer tok.Close() //nolint:errcheck // frees memory of a process that ends
			in, err := io.ReadAll(t.in)
			if err != nil {
				return fmt.Errorf("the standard input cannot be read: %w", err)
			}
			if c.Bool("decode") {
				return decodeIDs(t.out, tok, in)
			}
			return encodeText(t.out, tok, string(in), c.Bool("add-special"))
		},
	}
}

// encodeText prints a text's IDs as one JSON array.
func encodeText(w io.Writer, tok *hf.Tokenizer, text string, addSpecial bool) error {
	ids, err := tok.Encode(text, addSpecial)
	if err != nil {
		return err
	}
	if ids == nil {
		ids = []uint32{}
	}
	return json.NewEncoder(w).Encode(ids)
}

// decodeIDs prints the text of a JSON array of IDs, and nothing else.
func decodeIDs(w io.Writer, tok *hf.Tokenizer, in []byte) error {
	var ids []uint32
	if err := json.Unmarshal(in, &ids); err != nil {
		return fmt.Errorf("the standard input is no JSON array of token IDs, such as [1, 2]: %w", err)
	}
	text, err := tok.Decode(ids, false)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

func tokenizerDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "tokenizer", Usage: "`DIR` with the model's tokenizer.json and chat template"}
}

// tokenizerDir returns what --tokenizer names.
func tokenizerDir(c *cli.Context) (string, error) {
	dir := c.String("tokenizer")
	if dir == "" {
		return "", usageError{fmt.Errorf("plimsoll %s needs --tokenizer DIR: the folder with the model's tokenizer.json", c.Command.Name)}
	}
	return dir, checkFolder(dir)
}

// checkFolder says what is wrong where dir cannot be a model's folder at all; what it must hold is its readers' to say.
func checkFolder(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no folder that can be read: --tokenizer takes the folder that holds tokenizer.json", dir)
	}
	return nil
}
