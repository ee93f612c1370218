package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/client"
)

// Host is a Docker engine with its address.
type Host struct {
	// Name is used by resources and messages.
	Name string
	// Address is unix://PATH, tcp://HOST:PORT or ssh://[USER@]HOST[:PORT][/SOCKET].
	Address string
	// Certificates is the folder of the client's ca.pem, cert.pem and key.pem, for tcp only.
	Certificates string
}

// Names of a client's files, as Docker's own tools have them in DOCKER_CERT_PATH.
const (
	caFile   = "ca.pem"
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// noQuestions keeps ssh from prompting for a password or a host key.
var noQuestions = []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}

// HostOfEnvironment is the engine of DOCKER_HOST, by default the local socket, with the client's
// certificates in DOCKER_CERT_PATH.
func HostOfEnvironment(name string, environment func(string) string) Host {
	address := environment(client.EnvOverrideHost)
	if address == "" {
		address = client.DefaultDockerHost
	}
	return Host{Name: name, Address: address, Certificates: environment(client.EnvOverrideCertPath)}
}

// Check is an error unless the address has one of the three forms. A client of an engine is root on
// its host, so tcp without a client's certificate is allowed for this machine only.
func (h Host) Check() error {
	_, err := h.options()
	return err
}

func (h Host) options() ([]client.Opt, error) {
	address, err := url.Parse(h.Address)
	if err != nil {
		return nil, err
	}
	switch address.Scheme {
	case "unix":
		return []client.Opt{client.WithHost(h.Address)}, nil
	case "tcp":
		return h.overTCP(address)
	case "ssh":
		return h.overSSH()
	}
	return nil, errors.New(
		"expected an address such as unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host " +
			fmt.Sprintf("(got %q)", h.Address),
	)
}

func (h Host) overTCP(address *url.URL) ([]client.Opt, error) {
	if h.Certificates != "" {
		in := func(name string) string { return filepath.Join(h.Certificates, name) }
		return []client.Opt{
			client.WithTLSClientConfig(in(caFile), in(certFile), in(keyFile)),
			client.WithHost(h.Address),
		}, nil
	}
	if !isLoopback(address.Hostname()) {
		return nil, fmt.Errorf(
			"expected certificates for %s (a folder with %s, %s and %s, or DOCKER_CERT_PATH), as "+
				"whoever reaches an engine without is root there (got none)",
			h.Address, caFile, certFile, keyFile,
		)
	}
	return []client.Opt{client.WithHost(h.Address)}, nil
}

// overSSH connects through `docker system dial-stdio` on the other host, as Docker's own client
// does.
func (h Host) overSSH() ([]client.Opt, error) {
	helper, err := connhelper.GetConnectionHelperWithSSHOpts(h.Address, noQuestions)
	if err != nil {
		return nil, err
	}
	return []client.Opt{
		client.WithHost(helper.Host), client.WithDialContext(helper.Dialer),
	}, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && address.IsLoopback())
}
