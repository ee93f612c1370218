package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestFileSums_areKnownWhereContentsAre(t *testing.T) {
	file := func(content types.String) attr.Value {
		return types.ObjectValueMust(fileType.AttrTypes, map[string]attr.Value{
			"content": content, "mode": types.StringValue("0644"),
		})
	}
	files := types.MapValueMust(fileType, map[string]attr.Value{
		"/known":   file(types.StringValue("")),
		"/unknown": file(types.StringUnknown()),
		"/whole":   types.ObjectUnknown(fileType.AttrTypes),
	})
	sums, problems := fileSums(files)
	if problems.HasError() {
		t.Fatal(problems)
	}
	found := sums.Elements()
	empty := types.StringValue("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	if !found["/known"].Equal(empty) || !found["/unknown"].IsUnknown() || !found["/whole"].IsUnknown() {
		t.Errorf("expected the sum of the known content only, got %v", found)
	}
	for _, none := range []types.Map{types.MapNull(fileType), types.MapUnknown(fileType)} {
		sums, _ := fileSums(none)
		if sums.IsNull() != none.IsNull() || sums.IsUnknown() != none.IsUnknown() {
			t.Errorf("expected %v for %v", none, sums)
		}
	}
}
