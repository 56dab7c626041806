// Command probe is what TestCluster runs in pods.
//
//	probe serve FILE    serves FILE over HTTP on port 8080, after it has written it
//	probe get URL       prints what a URL serves
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// content is what the server serves.
const content = "hello from a volume"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("two arguments are required: serve FILE, or get URL")
	}
	if args[0] == "serve" {
		return serve(args[1])
	}
	return get(args[1])
}

func serve(file string) error {
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return err
	}
	fmt.Println("serving", file)
	server := &http.Server{
		Addr:              ":8080",
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }),
		ReadHeaderTimeout: time.Minute,
	}
	return server.ListenAndServe()
}

func get(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
