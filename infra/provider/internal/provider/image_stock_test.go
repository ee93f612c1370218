package provider

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/docker/docker/api/types/image"
)

func stockImage(t *testing.T, config string) image.InspectResponse {
	t.Helper()
	var found image.InspectResponse
	if err := json.Unmarshal([]byte(`{"Config": `+config+`}`), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestStockImage_ItsOwnWordsAreArguments(t *testing.T) {
	found := stockImage(t, `{
		"Entrypoint": ["/entry point", "it's"], "Cmd": ["serve"], "User": "app:web", "WorkingDir": "/srv",
		"Healthcheck": {"Test": ["CMD-SHELL", "curl -f localhost"]}
	}`)
	expected := map[string]string{
		"IMAGE":             "shop:1",
		"STOCK_ENTRYPOINT":  `'/entry point' 'it'\''s'`,
		"STOCK_COMMAND":     "'serve'",
		"STOCK_USER":        "app:web",
		"STOCK_WORKDIR":     "/srv",
		"STOCK_HEALTHCHECK": "'/bin/sh' '-c' 'curl -f localhost'",
	}
	if got := withStock(nil, "shop:1", found); !maps.Equal(got, expected) {
		t.Fatalf("expected %v, got %v", expected, got)
	}
}

func TestStockImage_WhatTheRoleSaysWins(t *testing.T) {
	found := stockImage(t, `{"Cmd": ["serve"]}`)
	got := withStock(map[string]string{"STOCK_COMMAND": ""}, "shop:1", found)
	if command, there := got["STOCK_COMMAND"]; !there || command != "" {
		t.Fatalf("expected no command, got %q", command)
	}
}

func TestStockImage_AHealthcheckThatIsNoneIsNone(t *testing.T) {
	for _, test := range [][]string{{"NONE"}, {}, {"CMD"}} {
		if got := probe(test, nil); got != nil {
			t.Errorf("expected no program of %v, got %v", test, got)
		}
	}
	if got := probe([]string{"CMD", "ping", "-c1"}, nil); len(got) != 2 || got[0] != "ping" {
		t.Errorf("expected the words of CMD, got %v", got)
	}
}
