package main

import (
	"log/slog"
	"slices"
)

// fresh is what a node is told to have read again.
type fresh struct {
	// config reads flags, variables and the configuration file again; nil: there is no file.
	config func() (Config, error)
	// listed: the file says which replicas there are. Flags and variables that do cannot change.
	listed bool
}

// reloads says which settings apply again at a reload.
func (f fresh) reloads(name string) bool { return name == "replica" && f.listed }

// reload reads again what can change while the node serves: keys, the certificate, and the replicas that the configuration file
// lists. All of it is checked before any of it is used: what is broken changes nothing.
func (n *node) reload() {
	uses, err := n.readAgain()
	switch {
	case err != nil:
		n.log.Error("nothing was reloaded: put it right and send SIGHUP again", slog.Any("reason", err))
	case len(uses) == 0:
		n.log.Info("there is nothing to reload: no configuration file, key file or certificate")
	default:
		for _, use := range uses {
			use()
		}
		n.log.Info("reloaded")
	}
}

// readAgain returns what has each of the things that were read again used.
func (n *node) readAgain() (uses []func(), err error) {
	if n.config.APIKeyFile != nil {
		keys, err := keysOf("--api-key-file", *n.config.APIKeyFile)
		if err == nil {
			err = checkTenants(n.config.Tenants, keys)
		}
		if err != nil {
			return nil, err
		}
		uses = append(uses, func() { n.server.SetKeys(keys) })
	}
	if n.config.AdminKeyFile != nil {
		keys, err := keysOf("--admin-key-file", *n.config.AdminKeyFile)
		if err != nil {
			return nil, err
		}
		uses = append(uses, func() { n.operators.Set(keys) })
	}
	if n.certificate != nil {
		use, err := n.certificate.Read()
		if err != nil {
			return nil, err
		}
		uses = append(uses, use)
	}
	if n.fresh.config == nil {
		return uses, nil
	}
	config, err := n.fresh.config()
	if err != nil {
		return nil, err
	}
	list, err := n.relist(config)
	if err != nil {
		return nil, err
	}
	return append(uses, list, func() { n.warnUnchanged(config) }), nil
}

// warnUnchanged says which settings of the file are others than at the start and wait for the next one.
func (n *node) warnUnchanged(now Config) {
	before := n.config.settings()
	var waiting []string
	for i, s := range now.settings() {
		if !n.fresh.reloads(s.name) && !slices.Equal(s.texts(), before[i].texts()) {
			waiting = append(waiting, s.name)
		}
	}
	if len(waiting) > 0 {
		n.log.Warn("settings have changed that apply at the next start", slog.Any("settings", waiting))
	}
}
