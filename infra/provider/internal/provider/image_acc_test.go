package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

const (
	imageAddr = "fleet_image.one"
	imageTag  = "tst-prov/one:test"
)

func contextWith(t *testing.T, dockerfile string) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "Dockerfile"), dockerfile)
	put(t, filepath.Join(dir, "hello"), "one")
	return dir
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func imageConfig(dir string, more ...string) string {
	return fmt.Sprintf("resource \"fleet_image\" \"one\" {\n  tag = %q\n  context = %q\n  %s\n}\n",
		imageTag, dir, strings.Join(more, "\n  "))
}

// changed fails unless the attribute differs from what the last call saw.
func changed(attribute string) resource.TestCheckFunc {
	var last string
	return resource.TestCheckResourceAttrWith(imageAddr, attribute, func(value string) error {
		if value == last {
			return fmt.Errorf("expected another %s, got %s again", attribute, value)
		}
		last = value
		return nil
	})
}

func imageGone(t *testing.T) resource.TestCheckFunc {
	return func(*terraform.State) error {
		if _, err := docker(t).ImageInspect(t.Context(), imageTag); !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("expected no image %s, got %w", imageTag, err)
		}
		return nil
	}
}

func TestAccImage_IsRebuiltExactlyWhenItsContentChanges(t *testing.T) {
	docker(t)
	dir := contextWith(t, "FROM scratch\nCOPY hello bin/agent /\n")
	agent := filepath.Join(t.TempDir(), "agent")
	put(t, agent, "agent one")
	config := imageConfig(dir, fmt.Sprintf("files = { \"bin/agent\" = %q }", agent))
	id, hash := changed("id"), changed("content_hash")
	rebuilt := resource.ComposeTestCheckFunc(id, hash)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(nil, Settle),
		CheckDestroy:             imageGone(t),
		Steps: []resource.TestStep{
			{Config: config, Check: rebuilt},
			{
				PreConfig: func() { put(t, filepath.Join(dir, "hello"), "one") },
				Config:    config,
				PlanOnly:  true,
			},
			{
				PreConfig:        func() { put(t, filepath.Join(dir, "hello"), "two") },
				Config:           config,
				ConfigPlanChecks: expect(imageAddr, plancheck.ResourceActionUpdate),
				Check:            rebuilt,
			},
			{
				PreConfig:        func() { put(t, agent, "agent two") },
				Config:           config,
				ConfigPlanChecks: expect(imageAddr, plancheck.ResourceActionUpdate),
				Check:            rebuilt,
			},
			{
				PreConfig:        func() { removeImage(t) },
				Config:           config,
				ConfigPlanChecks: expect(imageAddr, plancheck.ResourceActionCreate),
			},
			{
				ResourceName: imageAddr, ImportState: true, ImportStateId: imageTag, ImportStateVerify: true,
				// A check that the image does not know.
				ImportStateVerifyIgnore: []string{"context", "dockerfile", "files", "retain"},
			},
		},
	})
}

func removeImage(t *testing.T) {
	t.Helper()
	if _, err := docker(t).ImageRemove(t.Context(), imageTag, image.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAccImage_RetainedImageOutlivesDestroyAndIsAdopted(t *testing.T) {
	own := docker(t)
	config := imageConfig(contextWith(t, "FROM scratch\nCOPY hello /\n"), "retain = true")
	var first string
	same := resource.TestCheckResourceAttrWith(imageAddr, "id", func(id string) error {
		if first == "" {
			first = id
		}
		if id != first {
			return fmt.Errorf("expected to adopt %s, got %s", first, id)
		}
		return nil
	})
	for range 2 {
		resource.Test(t, resource.TestCase{
			ProtoV6ProviderFactories: factories(nil, Settle),
			Steps:                    []resource.TestStep{{Config: config, Check: same}},
			CheckDestroy: func(*terraform.State) error {
				_, err := own.ImageInspect(t.Context(), imageTag)
				return err
			},
		})
	}
	removeImage(t)
}

func TestAccImage_BuildUsesTheHostsNetworkAndItsArguments(t *testing.T) {
	docker(t)
	dir := contextWith(
		t,
		"FROM "+baseImage+"\nARG PAGES\nRUN test -e /sys/class/net/docker0 && test \"$PAGES\" = 2000\n",
	)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(nil, Settle),
		CheckDestroy:             imageGone(t),
		Steps: []resource.TestStep{{
			Config: imageConfig(dir, `base_image = "`+baseImage+`"`, `build_args = { PAGES = "2000" }`),
		}},
	})
}

func TestAccImage_RefusesWithOneClearMessage(t *testing.T) {
	docker(t)
	complete := contextWith(t, "FROM scratch\nCOPY hello /\n")
	cases := map[string]struct{ config, message string }{
		"no Dockerfile": {
			imageConfig(complete, `dockerfile = "Other"`),
			`expected the Dockerfile "Other"`,
		},
		"no context": {
			imageConfig("/dev/null/context"),
			"The build context of " + imageTag + " is not complete",
		},
		"a file not built": {
			imageConfig(complete, `files = { "bin/agent" = "/dev/null/agent" }`),
			"make build",
		},
		"a path outside": {
			imageConfig(complete, `files = { "../agent" = "/etc/hostname" }`),
			"expected a path inside the build context",
		},
		"a missing base": {
			imageConfig(complete, `base_image = "sparecraft/nowhere:local"`),
			"Image sparecraft/nowhere:local is missing",
		},
		"a step that fails": {
			imageConfig(contextWith(t, "FROM "+baseImage+"\nRUN echo the reason; exit 4\n")),
			"the reason",
		},
		"a wrong Dockerfile": {
			imageConfig(contextWith(t, "FORM scratch\n")),
			"The build of " + imageTag + " failed",
		},
	}
	for name, refused := range cases {
		t.Run(name, func(t *testing.T) {
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(nil, Settle),
				Steps: []resource.TestStep{
					{Config: refused.config, ExpectError: says(refused.message)},
				},
				CheckDestroy: imageGone(t),
			})
		})
	}
}
