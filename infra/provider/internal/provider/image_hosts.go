package provider

import (
	"context"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

// hostsOf returns the engines that need the image; the first builds it.
func (r *imageResource) hostsOf(
	ctx context.Context, model imageModel, diagnostics *diag.Diagnostics,
) pool {
	at, missing := r.present(ctx, model, diagnostics)
	for _, name := range missing {
		diagnostics.Append(r.noSuchHost(path.Root("hosts"), name))
	}
	return at
}

// present returns the engines of the model's hosts, and the names of hosts that the provider does
// not have.
func (r *imageResource) present(
	ctx context.Context, model imageModel, diagnostics *diag.Diagnostics,
) (at pool, missing []string) {
	if model.Hosts.IsNull() {
		return r.hosts[:1], nil
	}
	var names []string
	diagnostics.Append(model.Hosts.ElementsAs(ctx, &names, false)...)
	for _, name := range names {
		if found := r.hosts.find(name); found != nil {
			at = append(at, found)
		} else {
			missing = append(missing, name)
		}
	}
	return at, missing
}

// copyTo copies the image to hosts that have another content, or none, under its tag.
func copyTo(
	ctx context.Context, from *engine.Engine, to pool, tag, hash string,
) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	for _, other := range to {
		if found, err := other.ImageInspect(ctx, tag); err == nil && hashLabel(found) == hash {
			continue
		}
		if err := from.CopyImage(ctx, tag, other); err != nil {
			diagnostics.Append(problem{
				summary:  "Image " + tag + " could not be copied to host " + other.Host.Name,
				expected: "host " + from.Host.Name + " to save it and host " + other.Host.Name + " to load it",
				got:      err.Error(),
				hint:     "look at the space on its disk (`docker system df`), then apply again",
			}.diagnostic())
		}
	}
	return diagnostics
}

// look notes which hosts have the image: no id where the first has none, and a copy of another
// content counts as none.
func (m *imageModel) look(ctx context.Context, at pool) diag.Diagnostics {
	var diagnostics diag.Diagnostics
	m.ID, m.ContentHash = types.StringNull(), types.StringNull()
	ids := map[string]string{}
	for i, on := range at {
		found, err := on.ImageInspect(ctx, m.Tag.ValueString())
		switch {
		case cerrdefs.IsNotFound(err):
			continue
		case err != nil:
			diagnostics.Append(unexpected("inspect the image "+m.Tag.ValueString(), err))
			return diagnostics
		case i == 0:
			m.ID, m.ContentHash = types.StringValue(found.ID), types.StringValue(hashLabel(found))
		case hashLabel(found) != m.ContentHash.ValueString():
			continue
		}
		ids[on.Host.Name] = found.ID
	}
	value, problems := types.MapValueFrom(ctx, types.StringType, ids)
	diagnostics.Append(problems...)
	m.IDs = value
	return diagnostics
}

// isOn is true if the image is on these hosts and no others.
func (m *imageModel) isOn(at pool) bool {
	ids := m.IDs.Elements()
	for _, on := range at {
		if _, there := ids[on.Host.Name]; !there {
			return false
		}
	}
	return len(ids) == len(at)
}
