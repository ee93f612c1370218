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
	if came := withStock(nil, "shop:1", found); !maps.Equal(came, expected) {
		t.Fatalf("expected %v, came %v", expected, came)
	}
}

func TestStockImage_WhatTheRoleSaysWins(t *testing.T) {
	found := stockImage(t, `{"Cmd": ["serve"]}`)
	came := withStock(map[string]string{"STOCK_COMMAND": ""}, "shop:1", found)
	if command, there := came["STOCK_COMMAND"]; !there || command != "" {
		t.Fatalf("expected no command, came %q", command)
	}
}

func TestStockImage_AHealthcheckThatIsNoneIsNone(t *testing.T) {
	for _, test := range [][]string{{"NONE"}, {}, {"CMD"}} {
		if came := probe(test, nil); came != nil {
			t.Errorf("expected no program of %v, came %v", test, came)
		}
	}
	if came := probe([]string{"CMD", "ping", "-c1"}, nil); len(came) != 2 || came[0] != "ping" {
		t.Errorf("expected the words of CMD, came %v", came)
	}
}
