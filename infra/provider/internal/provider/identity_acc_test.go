package provider

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

const identityAddr = "fleet_identity.this"

// identityConfig also has a resource that uses web-1's certificate, as a machine does.
func identityConfig(servers string) string {
	return `
resource "fleet_identity" "this" {
  experiment = "tst-prov"
  servers    = ` + servers + `
}
resource "terraform_data" "web_1" {
  triggers_replace = fleet_identity.this.server_certificates["web-1"].certificate_pem
}
`
}

// identityState holds the attributes that one step saw, for the next to compare with.
type identityState struct{ seen map[string]string }

func (s *identityState) check(
	now func() time.Time,
	kept, renewed []string,
	servers map[string]string,
) resource.TestCheckFunc {
	return func(state *terraform.State) error {
		attributes := state.RootModule().Resources[identityAddr].Primary.Attributes
		for _, name := range kept {
			if attributes[name] != s.seen[name] {
				return fmt.Errorf("expected %s to stay", name)
			}
		}
		for _, name := range renewed {
			if attributes[name] == "" || attributes[name] == s.seen[name] {
				return fmt.Errorf("expected a new %s", name)
			}
		}
		s.seen = attributes
		return verify(attributes, now(), servers)
	}
}

// verify checks chains, purposes, addresses and keys of all certificates at a moment.
func verify(attributes map[string]string, now time.Time, servers map[string]string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(attributes["ca_certificate_pem"])) {
		return fmt.Errorf("expected a certificate, got %q", attributes["ca_certificate_pem"])
	}
	if want := fmt.Sprint(len(servers)); attributes["server_certificates.%"] != want {
		return fmt.Errorf(
			"expected %s server certificates, got %s",
			want,
			attributes["server_certificates.%"],
		)
	}
	check := func(certificate, key, address string, use x509.ExtKeyUsage) error {
		pair, err := tls.X509KeyPair([]byte(attributes[certificate]), []byte(attributes[key]))
		if err != nil {
			return fmt.Errorf("%s: %w", certificate, err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now, DNSName: address, KeyUsages: []x509.ExtKeyUsage{use},
		})
		return err
	}
	for name, address := range servers {
		prefix := "server_certificates." + name
		if err := check(prefix+".certificate_pem", prefix+".private_key_pem", address, x509.ExtKeyUsageServerAuth); err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
	}
	return check("client_certificate_pem", "client_private_key_pem", "", x509.ExtKeyUsageClientAuth)
}

func TestAccIdentity_VerifiesAndRotatesOnlyWhatHasTo(t *testing.T) {
	long(t)
	docker(t)
	today := time.Now()
	now := func() time.Time { return today }
	authority := []string{
		"ca_certificate_pem",
		"ca_private_key_pem",
		"client_certificate_pem",
		"client_private_key_pem",
	}
	web1, web2 := "server_certificates.web-1.certificate_pem", "server_certificates.web-2.certificate_pem"
	both := map[string]string{"web-1": "198.19.1.11", "web-2": "198.19.1.12"}
	moved := map[string]string{"web-1": "198.19.1.11", "web-2": "web-2.internal"}
	var state identityState
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(now, Settle),
		Steps: []resource.TestStep{
			{
				Config: identityConfig(`{ web-1 = ["198.19.1.11"] }`),
				Check: state.check(
					now,
					nil,
					append(authority, web1),
					map[string]string{"web-1": "198.19.1.11"},
				),
			},
			{ // another server
				Config:           identityConfig(`{ web-1 = ["198.19.1.11"], web-2 = ["198.19.1.12"] }`),
				ConfigPlanChecks: expect("terraform_data.web_1", plancheck.ResourceActionNoop),
				Check:            state.check(now, append(authority, web1), []string{web2}, both),
			},
			{ // a server with another address
				Config:           identityConfig(`{ web-1 = ["198.19.1.11"], web-2 = ["web-2.internal"] }`),
				ConfigPlanChecks: expect("terraform_data.web_1", plancheck.ResourceActionNoop),
				Check:            state.check(now, append(authority, web1), []string{web2}, moved),
			},
			{ // one server less
				Config: identityConfig(`{ web-1 = ["198.19.1.11"] }`),
				Check: state.check(
					now,
					append(authority, web1),
					nil,
					map[string]string{"web-1": "198.19.1.11"},
				),
			},
			{ // the client's certificate is past half of its life
				PreConfig: func() { today = today.Add(5 * 24 * time.Hour) },
				Config:    identityConfig(`{ web-1 = ["198.19.1.11"] }`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(identityAddr, plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction("terraform_data.web_1", plancheck.ResourceActionNoop),
				}},
				Check: state.check(
					now,
					[]string{"ca_certificate_pem", web1},
					[]string{"client_certificate_pem", "client_private_key_pem"},
					map[string]string{"web-1": "198.19.1.11"},
				),
			},
			{ // close to its end
				PreConfig:        func() { today = today.AddDate(0, 11, 15) },
				Config:           identityConfig(`{ web-1 = ["198.19.1.11"] }`),
				ConfigPlanChecks: expect(identityAddr, plancheck.ResourceActionReplace),
				Check: state.check(
					now,
					nil,
					append(authority, web1),
					map[string]string{"web-1": "198.19.1.11"},
				),
			},
		},
	})
}

func TestAccIdentity_IsMadeWithoutDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///dev/null/docker.sock")
	without := "provider \"fleet\" {\n  docker = false\n}\n"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(time.Now, Settle),
		Steps: []resource.TestStep{
			{Config: without + identityConfig(`{ web-1 = ["198.19.0.11"] }`)},
			{
				Config: without + `
resource "fleet_network" "this" {
  name       = "sc-tst-prov-none"
  experiment = "tst-prov"
  cidr       = "198.18.240.0/24"
}
`,
				ExpectError: says("This provider has no Docker engine"),
			},
		},
	})
}
