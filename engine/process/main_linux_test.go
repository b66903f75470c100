package process

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// liveFile is an open file that every process of a test inherits: its other end is at its end when none is left.
const liveFile = 9

// TestMain makes the test binary a guard, an engine or what one starts, if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := roles()[os.Args[1]]; ok {
			os.Exit(role(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

func roles() map[string]func(arguments []string) int {
	return map[string]func([]string) int{
		"guard": func(arguments []string) int {
			code, err := Guard(arguments)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 2
			}
			return code
		},
		"starter": starter,
		// exit CODE: says hello and ends
		"exit": func(arguments []string) int {
			fmt.Println("hello", arguments[1:], os.Getenv("OF_THE_TEST"))
			code, _ := strconv.Atoi(arguments[0])
			return code
		},
		// polite: ends at TERM
		"polite": func([]string) int {
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, syscall.SIGTERM)
			fmt.Println("polite", os.Getpid())
			<-asked
			return 7
		},
		// stubborn: takes no signal that it can refuse
		"stubborn": func([]string) int { return stubborn("stubborn", func() {}) },
		// daemon: is as stubborn, and closes file 3 when it is so far
		"daemon": func([]string) int { return stubborn("daemon", func() { _ = syscall.Close(3) }) },
		// family ROLE: starts a stubborn daemon in a session of its own below a child that ends, then goes on as ROLE
		"family": func(arguments []string) int {
			child := exec.Command(os.Args[0], "orphan") //nolint:noctx // ends by itself
			child.Stdout = os.Stdout
			if err := child.Run(); err != nil {
				fmt.Println(err)
				return 1
			}
			return roles()[arguments[0]](arguments[1:])
		},
		"orphan": func([]string) int {
			settled, theirs, err := os.Pipe()
			if err != nil {
				return 1
			}
			daemon := exec.Command(os.Args[0], "daemon") //nolint:noctx // the guard ends it
			daemon.Stdout, daemon.ExtraFiles = os.Stdout, []*os.File{theirs}
			daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := daemon.Start(); err != nil {
				fmt.Println(err)
				return 1
			}
			_ = theirs.Close()
			_, _ = settled.Read(make([]byte, 1)) // until it is closed
			return 0
		},
	}
}

// stubborn says who it is once no signal ends it that it can refuse.
func stubborn(role string, settled func()) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	fmt.Println(role, os.Getpid())
	settled()
	_ = syscall.Pause()
	return 0
}

// starter starts an engine and does nothing more, until it is killed.
func starter(arguments []string) int {
	_, err := Start(Config{
		Guard: []string{os.Args[0], "guard"}, Command: Command{Words: append([]string{os.Args[0]}, arguments...)},
		Grace: 50 * time.Millisecond, Output: os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = syscall.Pause()
	return 0
}
