package engine

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sparecraft/infra/provider/internal/pki"
	"sparecraft/infra/provider/internal/sshtest"
)

// answers is an engine that answers a ping, and nothing else.
var answers = http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
	if !strings.HasSuffix(request.URL.Path, "/_ping") {
		http.NotFound(response, request)
		return
	}
	response.Header().Set("Api-Version", "1.41")
	_, _ = response.Write([]byte("OK"))
})

func onSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sc") // short, as a socket's path is at most 107 bytes long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(answers)
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

func connects(t *testing.T, host Host) {
	t.Helper()
	found, err := Connect(t.Context(), host)
	if err != nil {
		t.Fatalf("%+v: expected to connect, got %v", host, err)
	}
	if said, err := found.Ping(t.Context()); err != nil || said.APIVersion != "1.41" {
		t.Errorf("%+v: expected API 1.41, got %+v, %v", host, said, err)
	}
}

func refuses(t *testing.T, host Host, because string) {
	t.Helper()
	if _, err := Connect(t.Context(), host); err == nil || !strings.Contains(err.Error(), because) {
		t.Errorf("%+v: expected an error with %q, got %v", host, because, err)
	}
}

func TestSocketOfThisHostIsReached(t *testing.T) {
	connects(t, Host{Address: "unix://" + onSocket(t)})
}

func TestAddressesOfOtherFormsAreRefused(t *testing.T) {
	for _, address := range []string{"", "docker.example.com", "http://127.0.0.1:2375", "fd://3", "npipe:////./pipe"} {
		refuses(t, Host{Address: address}, "expected an address such as")
	}
	refuses(t, Host{Address: "ssh://user:password@host"}, "plain-text password")
}

func TestPlainTCPIsForLoopbackOnly(t *testing.T) {
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	connects(t, Host{Address: "tcp://" + server.Listener.Addr().String()})
	for _, address := range []string{"tcp://192.0.2.7:2375", "tcp://127.example.com:2375", "tcp://[2001:db8::1]:2375"} {
		refuses(t, Host{Address: address}, "expected certificates for "+address)
	}
	for _, address := range []string{"tcp://localhost:2375", "tcp://[::1]:2375", "tcp://127.0.0.9:2375"} {
		if err := (Host{Address: address}).Check(); err != nil {
			t.Errorf("%s: expected no refusal, got %v", address, err)
		}
	}
}

func TestTCPNeedsTheClientsCertificateAndTheServersAuthority(t *testing.T) {
	authority, stranger := newAuthority(t), newAuthority(t)
	address := "tcp://" + overTLS(t, authority)
	connects(t, Host{Address: address, Certificates: clientOf(t, authority, authority)})
	refuses(t, Host{Address: address, Certificates: clientOf(t, authority, stranger)}, "certificate signed by unknown authority")
	refuses(t, Host{Address: address, Certificates: clientOf(t, stranger, authority)}, "tls: ")
	refuses(t, Host{Address: address}, "HTTP request to an HTTPS server")
	refuses(t, Host{Address: address, Certificates: t.TempDir()}, "ca.pem")
}

func newAuthority(t *testing.T) pki.Pair {
	t.Helper()
	authority, err := pki.NewAuthority("tst-hosts", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func overTLS(t *testing.T, authority pki.Pair) string {
	t.Helper()
	issued, err := pki.IssueServer(authority, "docker", []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair([]byte(issued.Certificate), []byte(issued.Key))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(authority.Certificate))
	server := httptest.NewUnstartedServer(answers)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// clientOf is a client's folder: a certificate that `signed` it, and the authority that it trusts.
func clientOf(t *testing.T, signed, trusted pki.Pair) string {
	t.Helper()
	client, err := pki.IssueClient(signed, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca.pem"), trusted.Certificate)
	write(t, filepath.Join(dir, "cert.pem"), client.Certificate)
	write(t, filepath.Join(dir, "key.pem"), client.Key)
	return dir
}

func TestOtherHostIsReachedBySSH(t *testing.T) {
	socket := onSocket(t)
	byDefault := sshtest.Start(t, "DOCKER_HOST=unix://"+socket)
	connects(t, Host{Address: "ssh://someone@" + byDefault.Address})
	connects(t, Host{Address: "ssh://" + byDefault.Address + socket})
}

func TestHostWhoseKeyIsUnknownIsRefusedWithoutAQuestion(t *testing.T) {
	server := sshtest.Start(t, "DOCKER_HOST=unix://"+onSocket(t))
	server.Forget(t)
	refuses(t, Host{Address: "ssh://" + server.Address}, "Host key verification failed")
}

func TestEngineOfTheEnvironmentIsTheLocalSocketWithoutOne(t *testing.T) {
	none := func(string) string { return "" }
	if host := HostOfEnvironment("local", none); host.Address != "unix:///var/run/docker.sock" {
		t.Errorf("expected the local socket, got %+v", host)
	}
	set := map[string]string{"DOCKER_HOST": "tcp://192.0.2.7:2376", "DOCKER_CERT_PATH": "/certificates"}
	want := Host{Name: "local", Address: "tcp://192.0.2.7:2376", Certificates: "/certificates"}
	if host := HostOfEnvironment("local", func(name string) string { return set[name] }); host != want {
		t.Errorf("expected %+v, got %+v", want, host)
	}
}
