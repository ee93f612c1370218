// An ordinary user of a current client of Go: CLIENT PORT READS. Prints the version of the client.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

func goRedis(port string, reads int) error {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer client.Close()
	if err := client.Set(ctx, "key", "value", 0).Err(); err != nil {
		return err
	}
	for number := range reads {
		if got, err := client.Get(ctx, "key").Result(); err != nil || got != "value" {
			return fmt.Errorf("GET: %q, %w", got, err)
		}
		if number%10 == 0 {
			pipe := client.TxPipeline()
			pipe.Incr(ctx, "number")
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func goSQL(port string, reads int) error {
	client, err := sql.Open("mysql", "wiki:wiki-read@tcp(127.0.0.1:"+port+")/wiki")
	if err != nil {
		return err
	}
	defer client.Close()
	for range reads {
		var title string
		// With an argument the driver prepares the statement.
		if err := client.QueryRow("SELECT title FROM page WHERE id = ?", 2).Scan(&title); err != nil || title != "Two" {
			return fmt.Errorf("SELECT: %q, %w", title, err)
		}
	}
	return nil
}

func main() {
	clients := map[string]struct {
		run    func(string, int) error
		module string
	}{
		"go-redis":      {goRedis, "github.com/redis/go-redis/v9"},
		"go-sql-driver": {goSQL, "github.com/go-sql-driver/mysql"},
	}
	client := clients[os.Args[1]]
	reads, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = client.run(os.Args[2], reads)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == client.module {
			fmt.Println(module.Version)
		}
	}
}
