package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionCommand prints what has a shell complete our commands, their flags, and the values that have names.
func completionCommand(t terminal) *cli.Command {
	printer := func(shell, load string, script func(*cli.App) (string, error)) *cli.Command {
		return &cli.Command{
			Name: shell, Usage: "print the script for " + shell + ": " + load, HideHelpCommand: true, OnUsageError: usageMistake,
			Action: withoutArguments(func(*cli.Context) error {
				text, err := script(newApp(t))
				if err == nil {
					_, err = io.WriteString(t.out, text)
				}
				return err
			}),
		}
	}
	return &cli.Command{
		Name:  "completion",
		Usage: "print a script with which a shell completes commands and flags",
		Subcommands: []*cli.Command{
			printer("bash", "source <(plimsoll completion bash)", bashCompletion),
			printer("zsh", "source <(plimsoll completion zsh)", func(a *cli.App) (string, error) {
				script, err := bashCompletion(a)
				return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + script, err
			}),
			printer("fish", "plimsoll completion fish | source", (*cli.App).ToFishCompletion),
		},
		HideHelpCommand: true,
		OnUsageError:    usageMistake,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError{fmt.Errorf("there is no script for %q: there are bash, zsh and fish", c.Args().First())}
			}
			return usageError{errors.New("name the shell: plimsoll completion bash, zsh or fish")}
		},
	}
}

// bashScript completes the first word from the commands, a value from those that its flag has, and a flag. Anything else is a file.
const bashScript = `_plimsoll() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=
    COMPREPLY=()
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if ((COMP_CWORD == 1)); then
        words="%s"
    else
        case "${COMP_WORDS[1]} $prev" in
%s        *)
            [[ $cur == -* ]] || return 0
            case "${COMP_WORDS[1]}" in
%s            esac
            ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _plimsoll plimsoll
`

func bashCompletion(app *cli.App) (string, error) {
	named := DefaultConfig()
	simulated := defaultSimConfig()
	values := map[string][]setting{"serve": named.settings(), "sim": simulated.settings()}
	var first, ofFlags, flags strings.Builder
	for _, command := range app.Commands {
		if command.Hidden {
			continue
		}
		first.WriteString(command.Name + " ")
		for _, s := range values[command.Name] {
			if s.allowed != nil {
				fmt.Fprintf(&ofFlags, "        \"%s --%s\") words=\"%s\" ;;\n", command.Name, s.name, strings.Join(s.allowed, " "))
			}
		}
		if len(command.Subcommands) > 0 {
			names := make([]string, 0, len(command.Subcommands))
			for _, sub := range command.Subcommands {
				names = append(names, sub.Name)
			}
			fmt.Fprintf(&ofFlags, "        \"%s %s\") words=\"%s\" ;;\n", command.Name, command.Name, strings.Join(names, " "))
		}
		fmt.Fprintf(&flags, "            %s) words=\"%s\" ;;\n", command.Name, strings.Join(append(dashed(command.Flags), "--help"), " "))
	}
	first.WriteString(strings.Join(append(dashed(app.Flags), "--help"), " "))
	return fmt.Sprintf(bashScript, first.String(), ofFlags.String(), flags.String()), nil
}

// dashed are the flags as they are written, without those that are hidden.
func dashed(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		names = append(names, "--"+f.Names()[0])
	}
	return names
}
