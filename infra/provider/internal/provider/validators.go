package provider

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"sparecraft/infra/provider/internal/buildcontext"
)

// checked is a string validator made of one function, whose error has the expected and the given
// value.
type checked struct {
	description string
	check       func(value string) error
}

var _ validator.String = checked{}

func (c checked) Description(context.Context) string         { return c.description }
func (c checked) MarkdownDescription(context.Context) string { return c.description }

func (c checked) ValidateString(
	_ context.Context, request validator.StringRequest, response *validator.StringResponse,
) {
	if request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() {
		return
	}
	if err := c.check(request.ConfigValue.ValueString()); err != nil {
		response.Diagnostics.AddAttributeError(
			request.Path,
			"Invalid "+request.Path.String(),
			err.Error(),
		)
	}
}

// keysAre checks a map's keys, and reports at the map: Terraform 1.11 crashes on a diagnostic at a
// key that the configuration writes as a number ({ 70000 = 80 }).
type keysAre struct{ checked }

var _ validator.Map = keysAre{}

func (k keysAre) ValidateMap(
	_ context.Context, request validator.MapRequest, response *validator.MapResponse,
) {
	for name := range request.ConfigValue.Elements() {
		if err := k.check(name); err != nil {
			response.Diagnostics.AddAttributeError(
				request.Path,
				"Invalid key in "+request.Path.String(),
				err.Error(),
			)
		}
	}
}

var (
	label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	mode  = regexp.MustCompile(`^0[0-7]{3}$`)
	port  = regexp.MustCompile(
		`^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`,
	)
)

func matches(pattern *regexp.Regexp, what string) checked {
	return checked{what, func(value string) error {
		if !pattern.MatchString(value) {
			return fmt.Errorf("expected %s (got %q)", what, value)
		}
		return nil
	}}
}

var (
	isLabel = checked{"a host name label", func(value string) error {
		if len(value) > 40 || !label.MatchString(value) {
			return fmt.Errorf("expected at most 40 of a-z, 0-9 and inner hyphens (got %q)", value)
		}
		return nil
	}}
	isMode        = matches(mode, "an octal file mode such as 0644")
	isPort        = matches(port, "a TCP port from 1 to 65535")
	isContextPath = checked{"a path in the build context", buildcontext.CheckPath}
	isCIDR        = checked{"an IPv4 network", func(value string) error {
		prefix, err := netip.ParsePrefix(value)
		if err != nil || !prefix.Addr().Is4() || prefix.Masked() != prefix {
			return fmt.Errorf(
				"expected an IPv4 network such as 198.18.0.0/16 with host bits zero (got %q)",
				value,
			)
		}
		return nil
	}}
	isAddress = checked{"an IPv4 address", func(value string) error {
		address, err := netip.ParseAddr(value)
		if err != nil || !address.Is4() {
			return fmt.Errorf("expected an IPv4 address such as 198.18.1.11 (got %q)", value)
		}
		return nil
	}}
	isFilePath = checked{"an absolute path of a file", func(value string) error {
		if !path.IsAbs(value) || path.Clean(value) != value || value == "/" {
			return fmt.Errorf(
				"expected an absolute path of a file such as /etc/sparecraft/agent.toml (got %q)",
				value,
			)
		}
		return nil
	}}
)
