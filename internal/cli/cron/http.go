package cron

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/leaderrun/leaderrun/backends"
	"github.com/leaderrun/leaderrun/internal/cli"
	"github.com/leaderrun/leaderrun/internal/launch"
	"github.com/leaderrun/leaderrun/internal/metrics"
	"github.com/leaderrun/leaderrun/internal/panics"
	"github.com/leaderrun/leaderrun/runner"
)

const (
	livePatience  = time.Second     // the loop of the daemon answers in microseconds
	readyPatience = 3 * time.Second // the backend
	httpPatience  = 10 * time.Second
)

// listen serves metrics and health. The returned function ends it.
func (s *service) listen(address string) (closeServer func(), err error) {
	listener, err := launch.ListenTCP(address)
	if err != nil {
		return nil, err
	}
	s.commands.Metrics = metrics.New()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.commands.Metrics)
	mux.HandleFunc("GET /healthz", probe(livePatience, s.daemon.Alive))
	mux.HandleFunc("GET /readyz", probe(readyPatience, s.ready))
	server := &http.Server{
		Handler: mux, ReadTimeout: httpPatience, WriteTimeout: httpPatience, MaxHeaderBytes: launch.MaxQuestion,
	}
	panics.Go(func() { _ = server.Serve(listener) }) // it ends with Close
	s.call.Console.Event(runner.Event{Name: "listening", Level: slog.LevelInfo, Text: "listening on " + listener.Addr().String()})
	return func() { _ = server.Close() }, nil
}

// probe answers 200 or 503.
func probe(patience time.Duration, check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if err := check(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
}

// ready says whether ticks that come due now could be claimed: the daemon does not drain, its loop lives and the
// backend answers. The backend is asked only when somebody wants to know.
func (s *service) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errors.New("draining: nothing starts here any more")
	}
	if err := s.daemon.Alive(ctx); err != nil {
		return err
	}
	return s.answers(ctx)
}

// answers says whether the backend does. Whoever reaches the address of --listen may ask: where the backend is, as whom it is asked and
// what it says is for the log alone, once for each time that it stops answering.
func (s *service) answers(ctx context.Context) error {
	_, err := s.store.Inspect(ctx, cli.ReadyProbe)
	if err == nil || errors.Is(err, backends.ErrUnknownJob) {
		s.silent.Store(false)
		return nil
	}
	if !s.silent.Swap(true) {
		s.call.Console.Event(runner.Event{Name: "not_ready", Level: slog.LevelWarn, Text: "/readyz answers 503: " + err.Error()})
	}
	if backends.IsAnswer(err) {
		return errors.New("the backend refuses: the log of the daemon says why")
	}
	return errors.New("the backend does not answer: the log of the daemon says why")
}
