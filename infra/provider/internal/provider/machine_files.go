package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// fileSums has the SHA-256 of each file's content: plans hide contents, and show by these which file changes.
func fileSums(files types.Map) (types.Map, diag.Diagnostics) {
	switch {
	case files.IsUnknown():
		return types.MapUnknown(types.StringType), nil
	case files.IsNull():
		return types.MapNull(types.StringType), nil
	}
	sums := map[string]attr.Value{}
	for name, file := range files.Elements() {
		sums[name] = types.StringUnknown()
		object, isObject := file.(types.Object)
		if !isObject {
			continue
		}
		content, isText := object.Attributes()["content"].(types.String)
		if isText && !content.IsUnknown() {
			sum := sha256.Sum256([]byte(content.ValueString()))
			sums[name] = types.StringValue(hex.EncodeToString(sum[:]))
		}
	}
	return types.MapValue(types.StringType, sums)
}

// sumFiles sets files_sha256 by files.
func (m *machineModel) sumFiles() diag.Diagnostics {
	var diagnostics diag.Diagnostics
	m.FilesSHA256, diagnostics = fileSums(m.Files)
	return diagnostics
}

func planFileSums(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	var files types.Map
	response.Diagnostics.Append(request.Plan.GetAttribute(ctx, path.Root("files"), &files)...)
	sums, problems := fileSums(files)
	response.Diagnostics.Append(problems...)
	response.Diagnostics.Append(response.Plan.SetAttribute(ctx, path.Root("files_sha256"), sums)...)
}
