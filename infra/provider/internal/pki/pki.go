// Package pki makes an experiment's own certificate authority and its certificates. Keys are ECDSA
// P-256 in PKCS #8, which rustls, Go and Python's ssl all read.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Lifetime of an authority and its servers' certificates. It outlives any experiment; the provider renews
// a month before the end.
const Lifetime = 365 * 24 * time.Hour

// ClientLifetime bounds the use of a stolen client certificate: a day more than the longest fleet
// that is paid for by the hour. The provider renews it from half of it on.
const ClientLifetime = 8 * 24 * time.Hour

// clockSkew is how far a machine's clock may lag.
const clockSkew = time.Hour

// Pair is a certificate and its private key, in PEM.
type Pair struct{ Certificate, Key string }

// NewAuthority makes a self-signed authority that can sign leaf certificates only.
func NewAuthority(experiment string, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Sparecraft CA of " + experiment},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(Lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(template, nil, nil)
}

// IssueClient signs a certificate for the controller of the experiment.
func IssueClient(authority Pair, now time.Time) (Pair, error) {
	return issue(
		authority, "sparecraft client", nil, x509.ExtKeyUsageClientAuth, now, ClientLifetime,
	)
}

// IssueServer signs a certificate for a machine; an address is an IP address or a DNS name.
func IssueServer(authority Pair, name string, addresses []string, now time.Time) (Pair, error) {
	return issue(authority, name, addresses, x509.ExtKeyUsageServerAuth, now, Lifetime)
}

func issue(
	authority Pair,
	name string,
	addresses []string,
	use x509.ExtKeyUsage,
	now time.Time,
	lifetime time.Duration,
) (Pair, error) {
	parsed, err := tls.X509KeyPair([]byte(authority.Certificate), []byte(authority.Key))
	if err != nil {
		return Pair{}, fmt.Errorf("read the authority from the state: %w", err)
	}
	end := now.Add(lifetime)
	if end.After(parsed.Leaf.NotAfter) {
		end = parsed.Leaf.NotAfter // a leaf never outlives its authority
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	return sign(template, parsed.Leaf, parsed.PrivateKey)
}

// ClientRenewalDue is true in the second half of a client certificate's life.
func ClientRenewalDue(certificate string, now time.Time) (bool, error) {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		return false, fmt.Errorf("read the client's certificate from the state: expected PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false, fmt.Errorf("read the client's certificate from the state: %w", err)
	}
	return now.After(parsed.NotAfter.Add(-ClientLifetime / 2)), nil
}

// sign makes a key and its certificate, signed by the parent or, without one, by itself.
func sign(template, parent *x509.Certificate, parentKey any) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	serialLimit := new(big.Int).Lsh(big.NewInt(1), 127)
	if template.SerialNumber, err = rand.Int(rand.Reader, serialLimit); err != nil {
		return Pair{}, fmt.Errorf("make a serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
	}, nil
}
