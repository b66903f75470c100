package process

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Command is a program to start. Each of its texts may hold {port}, {index}, {name} and {device}; other braces stay as they are.
type Command struct {
	Words       []string // the program and its arguments
	Environment []string // NAME=value, beside and before what this process has
	Folder      string   // to work in; "" for this process's own
}

// Values are what stands in a command for its placeholders.
type Values struct {
	Port   int    // to serve on; another one at every start
	Index  int    // of the engine among those of one command, from 0
	Name   string // the replica's
	Device string // what the operator gave this engine, "" if nothing
}

const portMark = "{port}"

// Validate says what is wrong, and what to do about it.
func (c Command) Validate() error {
	if len(c.Words) == 0 || c.Words[0] == "" {
		return errors.New("there is no command: write the engine's program and its arguments, e.g. llama-server -m x.gguf --port {port}")
	}
	ported := false
	for _, text := range append(append([]string{c.Folder}, c.Words...), c.Environment...) {
		if strings.ContainsRune(text, 0) {
			return errors.New("the command holds a NUL character, which none can")
		}
		ported = ported || strings.Contains(text, portMark)
	}
	if !ported {
		return errors.New("the command has no {port}, where the port to serve on is put: add it, e.g. --port {port}")
	}
	for _, variable := range c.Environment {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return fmt.Errorf("%q is no variable: write NAME=value", variable)
		}
	}
	return nil
}

// Fill puts the values into a text.
func (v Values) Fill(text string) string {
	return strings.NewReplacer(portMark, strconv.Itoa(v.Port), "{index}", strconv.Itoa(v.Index), "{name}", v.Name, "{device}", v.Device).
		Replace(text)
}

// Fill puts the values in.
func (c Command) Fill(v Values) Command {
	filled := Command{
		Words: make([]string, len(c.Words)), Environment: make([]string, len(c.Environment)), Folder: v.Fill(c.Folder),
	}
	for i, word := range c.Words {
		filled.Words[i] = v.Fill(word)
	}
	for i, variable := range c.Environment {
		filled.Environment[i] = v.Fill(variable)
	}
	return filled
}
