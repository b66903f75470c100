package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatCannotBeStartedIsFound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "engine"), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // it is to be run
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.gguf"), nil, 0o600))
	elsewhere := t.TempDir()
	t.Setenv("PATH", elsewhere)
	for name, c := range map[string]struct {
		command Command
		want    string // of the error; "": none
	}{
		"in a folder of PATH that the command sets": {Command{Words: []string{"engine"}, Environment: []string{"PATH=" + elsewhere + ":" + dir}}, ""},
		"in no folder of PATH":                      {Command{Words: []string{"engine"}}, "there is no program engine in the folders of PATH"},
		"where it is said":                          {Command{Words: []string{dir + "/{name}"}}, ""},
		"not where it is said":                      {Command{Words: []string{dir + "/motor"}}, "there is no program " + dir + "/motor"},
		"in the folder to work in":                  {Command{Words: []string{"./engine"}, Folder: dir}, ""},
		"not in the folder to work in":              {Command{Words: []string{"./engine"}, Folder: elsewhere}, "there is no program ./engine"},
		"not by its name alone, in the folder":      {Command{Words: []string{"engine"}, Folder: dir}, "in the folders of PATH"},
		"no program":                                {Command{Words: []string{dir + "/model.gguf"}}, "permission denied"},
		"no folder to work in":                      {Command{Words: []string{dir + "/engine"}, Folder: dir + "/none"}, "there is no folder " + dir + "/none"},
		"a file to work in":                         {Command{Words: []string{dir + "/engine"}, Folder: dir + "/engine"}, "there is no folder"},
		"not known before the start":                {Command{Words: []string{dir + "/engine-{port}"}}, ""},
		"no folder before the start":                {Command{Words: []string{"./engine"}, Folder: dir + "/{port}"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.command.Find(Values{Name: "engine"})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
