package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"testing"
	"time"
)

func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// handshake joins a server and a client over a real connection; both verify the other.
func handshake(t *testing.T, trusted, server, client Pair) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(trusted.Certificate)) {
		t.Fatal("the authority's certificate is no PEM")
	}
	serverPair := must[tls.Certificate](
		t,
	)(
		tls.X509KeyPair([]byte(server.Certificate), []byte(server.Key)),
	)
	clientPair := must[tls.Certificate](
		t,
	)(
		tls.X509KeyPair([]byte(client.Certificate), []byte(client.Key)),
	)
	listener := must[net.Listener](t)(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{
			serverPair,
		}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}))
	defer listener.Close()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, _ = connection.Write([]byte("ok"))
			_ = connection.Close()
		}
	}()
	connection, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{
		Certificates: []tls.Certificate{clientPair}, RootCAs: pool,
	})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = io.ReadAll(connection)
	return err
}

func TestServerAndClientOfOneAuthorityTrustEachOther(t *testing.T) {
	now := time.Now()
	authority := must[Pair](t)(NewAuthority("quiet", now))
	server := must[Pair](t)(IssueServer(authority, "web-1", []string{"127.0.0.1", "web-1"}, now))
	client := must[Pair](t)(IssueClient(authority, now))
	if err := handshake(t, authority, server, client); err != nil {
		t.Fatal(err)
	}
}

func TestHandshakeIsRefused(t *testing.T) {
	now := time.Now()
	authority := must[Pair](t)(NewAuthority("quiet", now))
	other := must[Pair](t)(NewAuthority("other", now))
	server := must[Pair](t)(IssueServer(authority, "web-1", []string{"127.0.0.1"}, now))
	client := must[Pair](t)(IssueClient(authority, now))
	elsewhere := must[Pair](t)(IssueServer(authority, "web-2", []string{"198.19.1.12"}, now))
	stranger := must[Pair](t)(IssueClient(other, now))
	expired := must[Pair](t)(NewAuthority("old", now.Add(-2*Lifetime)))
	cases := map[string]struct{ trusted, server, client Pair }{
		"a client of another experiment": {authority, server, stranger},
		"a server at another address":    {authority, elsewhere, client},
		"a server that plays the client": {authority, server, server},
		"a client that plays the server": {authority, client, client},
		"an authority past its life time": {
			expired,
			must[Pair](t)(IssueServer(expired, "web-1", []string{"127.0.0.1"}, now)),
			must[Pair](t)(IssueClient(expired, now)),
		},
	}
	for name, parties := range cases {
		if handshake(t, parties.trusted, parties.server, parties.client) == nil {
			t.Errorf("expected a refused handshake for %s", name)
		}
	}
}

func TestAClientsCertificateEndsInDaysAndIsDueHalfWay(t *testing.T) {
	now := time.Now()
	authority := must[Pair](t)(NewAuthority("quiet", now))
	client := must[Pair](t)(IssueClient(authority, now))
	server := must[Pair](t)(IssueServer(authority, "web-1", []string{"127.0.0.1"}, now))
	later := now.Add(ClientLifetime + time.Minute)
	for name, ended := range map[string]bool{client.Certificate: true, server.Certificate: false} {
		block, _ := pem.Decode([]byte(name))
		leaf := must[*x509.Certificate](t)(x509.ParseCertificate(block.Bytes))
		if later.After(leaf.NotAfter) != ended {
			t.Errorf("%s: expected ended %v at %s, got %s", leaf.Subject, ended, later, leaf.NotAfter)
		}
	}
	for days, due := range map[int]bool{3: false, 5: true} {
		got := must[bool](t)(ClientRenewalDue(client.Certificate, now.AddDate(0, 0, days)))
		if got != due {
			t.Errorf("expected due %v after %d days, got %v", due, days, got)
		}
	}
}
