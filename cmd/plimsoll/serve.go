package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

func serveCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the OpenAI API over engine replicas",
		Description: "Each flag can also be set by an environment variable (PLIMSOLL_ and the flag's name, e.g. PLIMSOLL_QUEUE_TIMEOUT;\n" +
			"several replicas are parted by spaces) and by a line of the configuration file (e.g. queue-timeout: 10s;\n" +
			"replica takes a list). A flag beats the environment, which beats the file.",
		Flags: serveFlags(),
		Action: func(c *cli.Context) error {
			config, err := configOf(c, t)
			if err != nil {
				return usageError{err}
			}
			ends, reloads := make(chan os.Signal, 2), make(chan os.Signal, 1)
			signal.Notify(ends, syscall.SIGTERM, os.Interrupt)
			signal.Notify(reloads, syscall.SIGHUP)
			return serve(config, freshOf(c, t), t, ends, reloads)
		},
	}
}

// serveFlags derives the flags from the settings.
func serveFlags() []cli.Flag {
	config := DefaultConfig()
	flags := make([]cli.Flag, 0, len(config.settings())+1)
	flags = append(flags, &cli.StringFlag{Name: "config", Usage: "YAML `FILE` with the settings that no flag and no variable gives"})
	for _, s := range config.settings() {
		if s.list {
			flags = append(flags, &cli.StringSliceFlag{Name: s.name, Usage: s.usage})
			continue
		}
		flags = append(flags, &cli.StringFlag{Name: s.name, Usage: s.usage, DefaultText: strings.Join(s.encode(), "")})
	}
	return flags
}

// freshOf says what of a command line can be read again.
func freshOf(c *cli.Context, t terminal) fresh {
	_, inEnvironment := t.getenv(envConfig)
	if !c.IsSet("config") && !inEnvironment {
		return fresh{}
	}
	_, byVariable := t.getenv(envOf("replica"))
	return fresh{
		config: func() (Config, error) { return configOf(c, t) },
		listed: !byVariable && !c.IsSet("replica"),
	}
}

// configOf puts the configuration of a command line together.
func configOf(c *cli.Context, t terminal) (Config, error) {
	var path *string
	if text, ok := t.getenv(envConfig); ok {
		path = &text
	}
	if c.IsSet("config") {
		text := c.String("config")
		path = &text
	}
	config, err := LoadConfig(path, t.getenv, func(name string) ([]string, bool) {
		if !c.IsSet(name) {
			return nil, false
		}
		if texts := c.StringSlice(name); texts != nil {
			return texts, true
		}
		return []string{c.String(name)}, true
	})
	if err != nil {
		return Config{}, err
	}
	return config, config.Validate(t.getenv)
}
