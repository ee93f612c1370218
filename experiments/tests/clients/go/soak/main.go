// Checked requests of a current client of Go until standard input ends: CLIENT PORT. Writes a line for
// each reply: `right`, `error CAUSE` or `wrong DESCRIPTION`.
package main

import (
	"context"
	"crypto/md5"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

const (
	acts  = 50 // of a session; those after the first 40 write
	reads = 40
	pause = 100 * time.Millisecond
	retry = 500 * time.Millisecond
	rows  = 999 // shares no divisor with acts, so that rows that were written are read later
)

// A session of a client.
type session interface {
	read(ctx context.Context, number int) error
	write(ctx context.Context, number int) error
	Close() error
	lasts() bool // true if it goes on after an error
}

func writeLine(line string) {
	fmt.Println(strings.Join(strings.Fields(line), " "))
}

// text belongs to a name and a number.
func text(name string, number int) string {
	key := fmt.Sprintf("%s=%d", name, number)
	return key + "=" + strings.Repeat(fmt.Sprintf("%x", md5.Sum([]byte(key))), 1+number%64)
}

func check(request, reply string, expected ...string) {
	for _, value := range expected {
		if reply == value {
			writeLine("right")
			return
		}
	}
	writeLine(fmt.Sprintf("wrong %s: %.200q", request, reply))
}

type goRedis struct{ *redis.Client }

func newRedis(port string) (session, error) {
	return goRedis{redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})}, nil
}

func (goRedis) lasts() bool { return true }

func (client goRedis) read(ctx context.Context, number int) error {
	value, err := client.Get(ctx, fmt.Sprintf("go-redis:%d", number)).Result()
	if errors.Is(err, redis.Nil) {
		writeLine("right")
		return nil
	}
	if err == nil {
		check("GET", value, text("go-redis", number))
	}
	return err
}

func (client goRedis) write(ctx context.Context, number int) error {
	row := number % rows
	reply, err := client.Set(ctx, fmt.Sprintf("go-redis:%d", row), text("go-redis", row), 0).Result()
	if err != nil {
		return err
	}
	check("SET", reply, "OK")
	pipe := client.TxPipeline()
	pipe.Set(ctx, "go-redis", text("write", number), 0)
	value := pipe.Get(ctx, "go-redis")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	check("EXEC", value.Val(), text("write", number))
	return nil
}

// The only connection of a pool.
type goSQL struct {
	*sql.Conn
	pool *sql.DB
}

func newSQL(port string) (session, error) {
	pool, err := sql.Open("mysql", "wiki:wiki-read@tcp(127.0.0.1:"+port+")/wiki")
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return goSQL{conn, pool}, nil
}

func (goSQL) lasts() bool { return false }

func (client goSQL) Close() error { return errors.Join(client.Conn.Close(), client.pool.Close()) }

func (client goSQL) read(ctx context.Context, number int) error {
	var page string
	// With an argument the driver prepares the statement.
	err := client.QueryRowContext(ctx, "SELECT text FROM article WHERE id = ?", number).Scan(&page)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		check("SELECT", page, text("article", number))
		return nil
	}
	return err
}

func (client goSQL) write(ctx context.Context, number int) error {
	const query = "SELECT text FROM proposal WHERE client = 'go-sql-driver' AND id = ?"
	transaction, err := client.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer transaction.Rollback() // does nothing after the one below
	proposal := text("go-sql-driver", number)
	if _, err := transaction.ExecContext(ctx, "INSERT INTO proposal VALUES ('go-sql-driver', ?, ?)", number, proposal); err != nil {
		return err
	}
	var value string
	if err := transaction.QueryRowContext(ctx, query, number).Scan(&value); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	check("SELECT after INSERT", value, proposal)
	if err := transaction.Rollback(); err != nil {
		return err
	}
	value = ""
	if err := client.QueryRowContext(ctx, query, number).Scan(&value); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	check("SELECT after ROLLBACK", value, "")
	return nil
}

func cause(err error) string {
	var fromServer *mysql.MySQLError
	var fromNetwork net.Error
	switch {
	case errors.As(err, &fromServer):
		return fmt.Sprintf("MySQL error %d", fromServer.Number)
	case errors.As(err, &fromNetwork), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn):
		return fmt.Sprintf("connection: %T", err)
	}
	return err.Error()
}

func fail(err error) {
	writeLine("error " + cause(err))
	time.Sleep(retry)
}

func act(client session, first int) error {
	ctx := context.Background()
	for number := first; number < first+acts; number++ {
		time.Sleep(pause)
		var err error
		if number-first < reads {
			err = client.read(ctx, number%rows)
		} else {
			err = client.write(ctx, number)
		}
		if err == nil {
			continue
		}
		if !client.lasts() {
			return err
		}
		fail(err)
	}
	return nil
}

func main() {
	connect := map[string]func(string) (session, error){"go-redis": newRedis, "go-sql-driver": newSQL}[os.Args[1]]
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for first := 0; ; first += acts {
		client, err := connect(os.Args[2])
		if err == nil {
			err = act(client, first)
			_ = client.Close() // of a connection that may be broken
		}
		if err != nil {
			fail(err)
		}
	}
}
