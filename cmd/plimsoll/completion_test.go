package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// completed asks a real bash what it would put for the last of some words.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	code, script, stderr := plimsoll(t, "", "completion", "bash")
	require.Zero(t, code, stderr)
	quoted := "'" + strings.Join(words, "' '") + "'"
	script += "COMP_WORDS=(" + quoted + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _plimsoll; printf '%s\\n' \"${COMPREPLY[@]}\"\n"
	out, err := exec.CommandContext(t.Context(), bash, "--norc", "-c", script).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

func TestBashCompletesCommandsFlagsAndValues(t *testing.T) {
	require.Equal(t, []string{"serve"}, completed(t, "plimsoll", "se"))
	require.NotContains(t, completed(t, "plimsoll", ""), guardCommandName)
	require.Equal(t, []string{"--version"}, completed(t, "plimsoll", "--v"))
	require.Equal(t, []string{"--launch-start-timeout"}, completed(t, "plimsoll", "serve", "--policy", "p2c", "--launch-s"))
	require.Equal(t, []string{"round-robin", "random"}, completed(t, "plimsoll", "serve", "--policy", "r"))
	require.Equal(t, []string{"json"}, completed(t, "plimsoll", "sim", "--log-format", "=", "j"))
	require.Contains(t, completed(t, "plimsoll", "serve", "--log-level", "="), "debug")
	require.Empty(t, completed(t, "plimsoll", "serve", "--config", ""), "a file is the shell's own matter")
	require.Contains(t, completed(t, "plimsoll", "explain", "--"), "--admin")
	require.Equal(t, []string{"zsh"}, completed(t, "plimsoll", "completion", "z"))
}

func TestScriptsForOtherShells(t *testing.T) {
	code, script, _ := plimsoll(t, "", "completion", "zsh")
	require.Zero(t, code)
	require.Contains(t, script, "bashcompinit")
	require.Contains(t, script, "complete -o default -F _plimsoll plimsoll")
	code, script, _ = plimsoll(t, "", "completion", "fish")
	require.Zero(t, code)
	require.Contains(t, script, "complete -c plimsoll")
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}} {
		code, _, stderr := plimsoll(t, "", args...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, "bash, zsh")
	}
}

func TestVersionAsFlag(t *testing.T) {
	code, want, _ := plimsoll(t, "", "version")
	require.Zero(t, code)
	for _, args := range [][]string{{"--version"}, {"-v"}, {"-v", "serve"}} {
		code, out, stderr := plimsoll(t, "", args...)
		require.Zero(t, code)
		require.Equal(t, want, out)
		require.Empty(t, stderr)
	}
}

func TestOrigins(t *testing.T) {
	config, err := LoadConfig(nil, environment(map[string]string{"PLIMSOLL_CORS_ORIGIN": "https://Chat.example http://localhost:3000"}), flagsOf(nil))
	require.NoError(t, err)
	require.Equal(t, []origin{"https://chat.example", "http://localhost:3000"}, config.Origins)
	for _, text := range []string{"chat.example", "https://chat.example/", "https://", "https://*.example", "https://a@b", "https://a?b", "null"} {
		_, err := parseOrigin(text, 1)
		require.ErrorContains(t, err, "is no origin: write SCHEME://HOST", text)
	}
}
