package managed

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"plimsoll/actors/supervise"
	"plimsoll/engine/process"
)

// keeper performs what the machine asks for. Its goroutine owns it.
type keeper struct {
	*Engine

	m       *machine
	process *process.Process // of the last start; nil before
	port    int
	done    bool
}

// keep runs the keeper until the engine is closed. One that panics is followed by another.
func (e *Engine) keep(m *machine) {
	defer close(e.over)
	k := &keeper{Engine: e, m: m}
	first := any(begin{})
	for !k.done {
		failed := false
		ended := make(chan struct{})
		supervise.Go(e.deps.Log, "keeper", func() { k.run(first) }, func(any) { failed = true }, func() { close(ended) })
		<-ended
		if failed {
			first = nil
			if k.m.closing {
				first = closing{}
			}
			k = k.again()
		}
	}
	e.err = e.output.close()
}

// again ends what the failed keeper's process has left and returns the next keeper.
func (k *keeper) again() *keeper {
	k.abandon()
	if k.process != nil {
		k.process.Kill()
		k.process.Wait()
	}
	return &keeper{Engine: k.Engine, m: k.m.again(time.Now()), port: k.port}
}

// run serves until the machine is done.
func (k *keeper) run(event any) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !k.done {
		if event != nil {
			k.step(event)
		}
		var ring <-chan time.Time // nil: no tick is wanted
		if at, ok := k.m.next(); ok {
			timer.Reset(max(0, time.Until(at)))
			ring = timer.C
		}
		if k.done {
			return
		}
		select {
		case event = <-k.events:
		case <-ring:
			event = tick{}
		}
	}
}

// step lets the machine take an event and does what it says.
func (k *keeper) step(event any) {
	if _, ok := event.(gone); ok && k.m.why == "" && !k.m.closing {
		if said := k.output.last(); said != "" {
			k.deps.Log.Warn("an engine's last words", slog.String("replica", k.cfg.Name), slog.String("output", said))
		}
	}
	effects := k.m.step(time.Now(), event)
	k.publish()
	for _, e := range effects {
		switch e := e.(type) {
		case spawn:
			k.spawn()
			k.publish()
		case end:
			if e.now {
				k.process.Kill()
			} else {
				k.process.End()
			}
		case retire:
			k.abandon()
		case tell:
			k.log(e)
		case done:
			k.done = true
		}
	}
}

func (k *keeper) publish() { k.status.Store(k.m.status(k.port)) }

func (k *keeper) log(e tell) {
	level := slog.LevelInfo
	if e.level == warn {
		level = slog.LevelWarn
	}
	k.deps.Log.LogAttrs(context.Background(), level, "engine process", slog.String("replica", k.cfg.Name), slog.String("what", e.what),
		slog.Int("start", k.m.starts), slog.Int("port", k.port))
}

// abandon lets no call reach the present life any more.
func (k *keeper) abandon() {
	if l := k.present.Swap(nil); l != nil {
		l.retire()
	}
}

// spawn starts the process. What goes wrong is an exit like others.
func (k *keeper) spawn() {
	start := k.m.starts
	p, err := k.launch(start)
	if err != nil {
		k.process = nil
		k.step(exited{start, process.Exit{Error: err.Error()}})
		k.step(gone{start})
		return
	}
	k.process = p
	port := k.port
	go func() {
		if pid, ok := <-p.Started(); ok {
			k.send(ran{start, pid})
		}
		if exit, ok := <-p.Exited(); ok {
			k.send(exited{start, exit})
		}
		p.Wait()
		k.deps.Ports.Return(port)
		k.send(gone{start})
	}()
}

// launch starts a process on a port of its own and makes the life that callers see.
func (k *keeper) launch(start int) (*process.Process, error) {
	k.output.forget()
	port, err := k.deps.Ports.Take(context.Background())
	if err != nil {
		return nil, err
	}
	k.port = port
	command := k.cfg.Command.Fill(k.cfg.values(port))
	k.output.begin(start, command.Words)
	adapter, err := k.deps.Connect("http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		k.deps.Ports.Return(port)
		return nil, fmt.Errorf("the adapter: %w", err)
	}
	p, err := process.Start(process.Config{Guard: k.deps.Guard, Command: command, Grace: k.cfg.Grace, Output: k.output})
	if err != nil {
		_ = adapter.Close()
		k.deps.Ports.Return(port)
		return nil, err
	}
	k.present.Store(newLife(start, adapter))
	k.deps.Log.Info("engine process", slog.String("replica", k.cfg.Name), slog.String("what", "the engine is started"),
		slog.Int("start", start), slog.Int("port", port))
	return p, nil
}
