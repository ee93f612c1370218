// Package sshtest is an ssh host for tests on a loopback address. It runs the commands it gets, as
// sshd does.
package sshtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Server is a host that accepts one key.
type Server struct {
	// Address is 127.0.0.1:PORT.
	Address string
	// Environment is added to that of this process for commands.
	Environment []string

	config *ssh.ServerConfig
	known  string // the file with the host's key
}

// Start listens until the test ends, and puts an ssh on PATH that knows the host and has the key.
func Start(t *testing.T, environment ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	hostKey, userKey := newKey(t), newKey(t)
	server := &Server{
		Environment: environment,
		known:       filepath.Join(dir, "known_hosts"),
		config: &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(signer(t, userKey).PublicKey().Marshal()) {
				return nil, fmt.Errorf("expected the test's key (got %s)", ssh.FingerprintSHA256(key))
			}
			return nil, nil
		}},
	}
	server.config.AddHostKey(signer(t, hostKey))
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Address = listener.Addr().String()
	server.write(t, dir, signer(t, hostKey).PublicKey(), userKey)
	go server.serve(t.Context(), listener)
	t.Cleanup(func() { _ = listener.Close() })
	return server
}

// Forget removes the host from ssh's known hosts.
func (s *Server) Forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(s.known, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) write(t *testing.T, dir string, hostKey ssh.PublicKey, userKey ed25519.PrivateKey) {
	t.Helper()
	client, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatalf("expected OpenSSH's client: %v", err)
	}
	block, err := ssh.MarshalPrivateKey(userKey, "")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(s.Address)
	known := fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(hostKey))
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -F none -i %s/key -o IdentitiesOnly=yes -o UserKnownHostsFile=%s/known_hosts \"$@\"\n",
		client, dir, dir)
	for name, content := range map[string]string{"key": string(pem.EncodeToMemory(block)), "known_hosts": known, "ssh": wrapper} {
		mode := os.FileMode(0o600)
		if name == "ssh" {
			mode = 0o700
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func (s *Server) serve(ctx context.Context, listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // closed
		}
		go s.session(ctx, connection)
	}
}

func (s *Server) session(ctx context.Context, raw net.Conn) {
	connection, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		return // refused
	}
	defer connection.Close()
	go ssh.DiscardRequests(requests)
	for wanted := range channels {
		channel, requests, err := wanted.Accept()
		if err != nil {
			return
		}
		go s.run(ctx, channel, requests)
	}
}

func (s *Server) run(ctx context.Context, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for request := range requests {
		var asked struct{ Command string }
		isCommand := request.Type == "exec" && ssh.Unmarshal(request.Payload, &asked) == nil
		_ = request.Reply(isCommand || request.Type == "env", nil)
		if !isCommand {
			continue
		}
		command := exec.CommandContext(ctx, "sh", "-c", asked.Command)
		command.Env = append(os.Environ(), s.Environment...)
		command.Stdin, command.Stdout, command.Stderr = channel, channel, channel.Stderr()
		code := 0
		if err := command.Run(); err != nil {
			code = 1
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
		return
	}
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signer(t *testing.T, key ed25519.PrivateKey) ssh.Signer {
	t.Helper()
	made, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
