// Command terraform-provider-fleet is the Terraform provider `sparecraft/fleet`: a fleet of
// machines (containers with machine semantics) on Docker engines.
package main

import (
	"context"
	"log"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"sparecraft/infra/provider/internal/provider"
)

// version is set by the linker, see ./install.
var version = "dev"

func main() {
	options := providerserver.ServeOpts{Address: "registry.terraform.io/sparecraft/fleet"}
	factory := provider.New(version, time.Now, provider.Settle)
	if err := providerserver.Serve(context.Background(), factory, options); err != nil {
		log.Fatal(err)
	}
}
