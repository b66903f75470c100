package main

import (
	"errors"
	"fmt"
	"os"
)

// checkOutputs says at the begin of a long run whether the files that flags name can be written at its end. What is there stays
// as it is. named gives a flag's file, "" where there is none.
func checkOutputs(named func(flag string) string, flags ...string) error {
	by := map[string]string{}
	for _, flag := range flags {
		name := named(flag)
		if name == "" {
			continue
		}
		if other, taken := by[name]; taken {
			return fmt.Errorf("--%s and --%s name the same file %s: give each its own", other, flag, name)
		}
		by[name] = flag
		if err := checkOutput(name); err != nil {
			return fmt.Errorf("--%s cannot be written: %w", flag, err)
		}
	}
	return nil
}

func checkOutput(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil // a device or a pipe, whose reader hears every open
	}
	absent := errors.Is(err, os.ErrNotExist)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = file.Close()
	if absent {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
