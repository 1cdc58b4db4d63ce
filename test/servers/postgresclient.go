package servers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// askPostgres runs statements and returns the first column of the last one's first row as text. It comes by the network, as
// the clients do, and by the simple protocol, which takes several statements at once.
func askPostgres(timeout time.Duration, url string, from place, query string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := connectPostgres(ctx, url, from)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close(context.Background()) }()
	results, err := c.Exec(ctx, query).ReadAll()
	if err != nil || len(results) == 0 {
		return "", err
	}
	if rows := results[len(results)-1].Rows; len(rows) > 0 && len(rows[0]) > 0 {
		return string(rows[0][0]), nil
	}
	return "", nil
}

func connectPostgres(ctx context.Context, url string, from place) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DialFunc = from.dial
	if from.tls != nil {
		config.TLSConfig.Certificates = from.tls.Certificates
	}
	return pgconn.ConnectConfig(ctx, config)
}

// Session opens a connection and runs statements on it. It stays open, with its transaction, until it is closed.
func (s *PostgresServer) Session(query string) (closing func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := connectPostgres(ctx, s.URL(), s.place)
	if err != nil {
		return nil, err
	}
	closing = func() { _ = c.Close(context.Background()) }
	if _, err := c.Exec(ctx, query).ReadAll(); err != nil {
		closing()
		return nil, err
	}
	return closing, nil
}

// Crowd opens connections until the server takes no more, and returns what closes them.
func (s *PostgresServer) Crowd() (leave func(), err error) {
	var all []func()
	leave = func() {
		for _, closing := range all {
			closing()
		}
	}
	for {
		closing, err := s.Session("SELECT 1")
		if wrong, ok := errors.AsType[*pgconn.PgError](err); ok && wrong.Code == "53300" { // too_many_connections
			return leave, nil
		}
		if err != nil {
			leave()
			return nil, err
		}
		all = append(all, closing)
	}
}
