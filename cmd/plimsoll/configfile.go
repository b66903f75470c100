package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"
)

// source says for which settings the command line has a value, and which texts.
type source func(name string) (texts []string, ok bool)

// LoadConfig makes the configuration: the defaults, over them the file (path nil: none), over it the environment, over it the
// flags. Every error names where the value comes from: the file and line, the variable, or the flag.
func LoadConfig(path *string, getenv func(string) (string, bool), flags source) (Config, error) {
	c := DefaultConfig()
	if path != nil {
		if err := c.decodeFile(*path); err != nil {
			return Config{}, err
		}
	}
	for _, s := range c.settings() {
		if text, ok := getenv(s.env()); ok {
			texts := []string{text}
			if s.list {
				texts = s.parts(text)
			}
			if err := s.decode(texts); err != nil {
				return Config{}, fmt.Errorf("%s: %w", s.env(), err)
			}
		}
		if texts, ok := flags(s.name); ok {
			if err := s.decode(texts); err != nil {
				return Config{}, fmt.Errorf("--%s: %w", s.name, err)
			}
		}
	}
	return c, nil
}

func (c *Config) decodeFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the configuration file cannot be read: %w", err)
	}
	return c.decodeYAML(path, raw)
}

// decodeYAML sets what a file says. Its top level is one mapping from settings' names to values.
func (c *Config) decodeYAML(path string, raw []byte) error {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // nothing but comments
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: holds more than one YAML document", path)
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: write one setting a line, e.g. listen: 127.0.0.1:8080", path, top.Line)
	}
	settings := c.settings()
	lines := map[string]int{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		where := path + ":" + strconv.Itoa(key.Line)
		n := slices.IndexFunc(settings, func(s setting) bool { return s.name == key.Value })
		if n < 0 {
			return fmt.Errorf("%s: there is no setting %q%s", where, key.Value, suggestion(key.Value, settings))
		}
		if line, twice := lines[key.Value]; twice {
			return fmt.Errorf("%s: %s is already set in line %d", where, key.Value, line)
		}
		lines[key.Value] = key.Line
		if line, err := decodeNode(settings[n], value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", path, line, key.Value, err)
		}
	}
	return nil
}

// parts cuts the text of a variable into the values of a list. Commas belong to the values.
func (s setting) parts(text string) []string {
	if !s.lines {
		return strings.Fields(text)
	}
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return parts
}

// decodeNode sets a setting from a value of the file; with an error it returns the line at fault.
func decodeNode(s setting, value *yaml.Node) (line int, err error) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode && s.list {
		items = value.Content
	}
	if s.decodeNodes != nil && value.Tag != "!!null" {
		return s.decodeNodes(items)
	}
	texts := make([]string, 0, len(items))
	for _, item := range items {
		switch {
		case item.Kind == yaml.SequenceNode:
			return item.Line, errors.New("takes one value, not a list")
		case item.Kind != yaml.ScalarNode:
			return item.Line, errors.New("takes a plain value, not a mapping")
		case item.Tag == "!!null":
			return item.Line, errors.New("has no value: write one or leave the line out")
		}
		texts = append(texts, item.Value)
	}
	return value.Line, s.decode(texts)
}

// suggestion names the setting that a misspelt key most likely means.
func suggestion(key string, settings []setting) string {
	plain := func(s string) string { return strings.TrimRight(strings.ReplaceAll(strings.ToLower(s), "_", "-"), "s") }
	nearest := strings.TrimLeft(cli.SuggestFlag(serveFlags(), plain(key), true), "-")
	for _, s := range settings {
		if plain(s.name) == plain(key) {
			nearest = s.name
		}
	}
	return fmt.Sprintf(": do you mean %s? The names are those of the flags, see plimsoll serve --help", nearest)
}

// YAML prints the configuration as a file that gives it again.
func (c *Config) YAML() (string, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range c.settings() {
		texts := s.encode()
		if len(texts) == 0 {
			continue
		}
		value := scalar(texts[0])
		switch {
		case s.encodeNodes != nil:
			value = &yaml.Node{Kind: yaml.SequenceNode, Content: s.encodeNodes()}
		case s.list:
			value = &yaml.Node{Kind: yaml.SequenceNode}
			for _, text := range texts {
				value.Content = append(value.Content, scalar(text))
			}
		}
		top.Content = append(top.Content, scalar(s.name), value)
	}
	out, err := yaml.Marshal(top)
	return string(out), err
}

// scalar is a plain value; it is quoted where it would else be read as none.
func scalar(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if n.ShortTag() == "!!null" {
		n.Tag = "!!str"
	}
	return n
}
