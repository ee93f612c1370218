package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"sparecraft/infra/provider/internal/engine"
)

func asked(name, address string) hostModel {
	return hostModel{Name: types.StringValue(name), Address: types.StringValue(address)}
}

func none(string) string { return "" }

func TestWithoutHostsTheEnvironmentsIsTheOnlyOne(t *testing.T) {
	hosts, problems := hostsOf(nil, func(name string) string {
		return map[string]string{"DOCKER_HOST": "ssh://elsewhere"}[name]
	})
	if problems.HasError() || len(hosts) != 1 || hosts[0] != (engine.Host{Name: "local", Address: "ssh://elsewhere"}) {
		t.Errorf("expected host local at ssh://elsewhere, got %+v, %v", hosts, problems)
	}
}

func TestHostsThatCannotBeAreRefusedBeforeTheyAreReached(t *testing.T) {
	for because, models := range map[string][]hostModel{
		"got \"a\" again":                         {asked("a", "ssh://a"), asked("a", "ssh://b")},
		"expected certificates for tcp://a:2375":  {asked("a", "tcp://a:2375")},
		"expected an address such as unix:///var": {asked("a", "a.example.com")},
	} {
		_, problems := hostsOf(models, none)
		if len(problems) != 1 || !strings.Contains(problems[0].Detail(), because) {
			t.Errorf("expected one error with %q, got %v", because, problems)
		}
	}
}

func TestEachHostThatDoesNotAnswerIsNamed(t *testing.T) {
	_, problems := connectAll(t.Context(), []engine.Host{
		{Name: "a", Address: "unix:///dev/null/a.sock"}, {Name: "b", Address: "tcp://127.0.0.1:1"},
	})
	for i, name := range []string{"a", "b"} {
		if len(problems) != 2 || !strings.HasSuffix(problems[i].Summary(), "on host "+name) {
			t.Errorf("expected one error for each host, got %v", problems)
		}
	}
}

func TestResourceWithoutAHostIsOnTheFirst(t *testing.T) {
	first, second := &engine.Engine{Host: engine.Host{Name: "a"}}, &engine.Engine{Host: engine.Host{Name: "b"}}
	both := pool{first, second}
	for name, want := range map[string]*engine.Engine{"": first, "a": first, "b": second, "c": nil} {
		if found := both.find(name); found != want {
			t.Errorf("host %q: expected %v, got %v", name, want, found)
		}
	}
}
