package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

const (
	envPrefix = "PLIMSOLL_"
	envConfig = envPrefix + "CONFIG"
	// envShared is where the tests find data from outside the repository.
	envShared = envPrefix + "SHARED"
)

// stray is an environment variable that looks like a setting and is none.
type stray struct {
	name    string
	nearest string // the variable that is most likely meant
}

// strayVariables finds the variables that set nothing, most likely because they are misspelt, in the order of their names.
// Those that replicas' api-key-env name are none of them.
func strayVariables(environ []string, c Config) []stray {
	known := map[string]bool{envConfig: true, envShared: true}
	for _, s := range c.settings() {
		known[s.env()] = true
	}
	for _, r := range c.Replicas {
		if r.APIKeyEnv != nil {
			known[*r.APIKeyEnv] = true
		}
	}
	var found []stray
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || known[name] {
			continue
		}
		flag := cli.SuggestFlag(serveFlags(), flagOf(name), true)
		found = append(found, stray{name, envOf(strings.TrimLeft(flag, "-"))})
	}
	slices.SortFunc(found, func(a, b stray) int { return strings.Compare(a.name, b.name) })
	return found
}

// envOf is the name of a setting's environment variable.
func envOf(setting string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// flagOf is the inverse of envOf.
func flagOf(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, envPrefix), "_", "-"))
}
