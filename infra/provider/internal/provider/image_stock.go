package provider

import (
	"context"
	"maps"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"sparecraft/infra/provider/internal/engine"
)

// pullStock pulls the image. A failure of the registry is a problem in its own words.
func pullStock(ctx context.Context, on *engine.Engine, name string) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	if name == "" {
		return diagnostics
	}
	_, err := on.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		err = on.Pull(ctx, name)
	}
	if err != nil {
		diagnostics.Append(diag.WithPath(path.Root("stock_image"), problem{
			summary:  "Image " + name + " is missing",
			expected: "the image in this Docker engine, or in a registry that it can pull from",
			got:      err.Error(),
			hint:     "correct the name, or `docker pull " + name + "`, `docker build` or `docker load` it",
		}.diagnostic()))
	}
	return diagnostics
}

// withStock adds settings of a stock image to the arguments, whose own values win.
func withStock(
	arguments map[string]string,
	name string,
	found image.InspectResponse,
) map[string]string {
	all := map[string]string{"IMAGE": name}
	if config := found.Config; config != nil {
		all["STOCK_ENTRYPOINT"] = shellWords(config.Entrypoint)
		all["STOCK_COMMAND"] = shellWords(config.Cmd)
		all["STOCK_USER"] = config.User
		all["STOCK_WORKDIR"] = config.WorkingDir
		if config.Healthcheck != nil {
			all["STOCK_HEALTHCHECK"] = shellWords(probe(config.Healthcheck.Test, config.Shell))
		}
	}
	maps.Copy(all, arguments)
	return all
}

// probe returns the program of a HEALTHCHECK, if there is one.
func probe(test, shell []string) []string {
	if len(test) < 2 {
		return nil
	}
	switch test[0] {
	case "CMD":
		return test[1:]
	case "CMD-SHELL":
		if len(shell) == 0 {
			shell = []string{"/bin/sh", "-c"}
		}
		return append(append([]string{}, shell...), test[1])
	}
	return nil
}

// shellWords quotes words for a shell.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
