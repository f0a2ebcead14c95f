package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cutwater/api"
	"cutwater/api/apitest"
)

// document is the part of an OpenAPI document that the tests read.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string                     `json:"operationId"`
		Responses   map[string]json.RawMessage `json:"responses"`
		Security    *[]any                     `json:"security"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
}

// The document lists every route, and every answer is as it says, member by member.
func TestDocument(t *testing.T) {
	b := apitest.Sample()
	b.Happen(api.Event{Kind: "StatusChanged", Job: apitest.Running, Text: "job CREATED -> RUNNING"})
	s := serve(t, b, api.Options{})
	_, text := ask(t, s, http.MethodGet, "/cutwater/v1/openapi.json", "")
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	asked := 0
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			if ids[operation.OperationID] {
				t.Errorf("two operations are called %s", operation.OperationID)
			}
			ids[operation.OperationID] = true
			body, kind := "{}", "application/json"
			if strings.HasSuffix(path, "/cutwater/v1/jobs") && method == "post" {
				body = `{"topology":{"file":"/t.yaml","text":"name: x"}}`
			}
			live := strings.NewReplacer("{job}", apitest.Running, "{checkpoint}", "9", "{vertex}", "daily-00000002", "{node}", b.Node.Name).Replace(path)
			answer, got := ask(t, s, strings.ToUpper(method), live, body, "Content-Type", kind)
			raw, known := operation.Responses[fmt.Sprint(answer.StatusCode)]
			if !known || answer.StatusCode >= 300 {
				t.Errorf("%s %s answers with %d, which is not documented: %s", method, path, answer.StatusCode, got)
				continue
			}
			var response struct {
				Content map[string]struct {
					Schema map[string]any `json:"schema"`
				} `json:"content"`
			}
			if err := json.Unmarshal(raw, &response); err != nil {
				t.Fatal(err)
			}
			media, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
			content, ok := response.Content[media]
			if !ok {
				t.Errorf("%s %s answers with %s, which is not documented", method, path, media)
				continue
			}
			asked++
			if media == "text/plain" {
				continue
			}
			for line := range strings.Lines(got) {
				var v any
				if err := json.Unmarshal([]byte(line), &v); err != nil && media == "application/x-ndjson" {
					t.Fatal(err)
				} else if err != nil {
					break // many lines, one value: the document itself
				}
				for _, problem := range conform(doc, content.Schema, v, "answer") {
					t.Errorf("%s %s: %s", method, path, problem)
				}
			}
		}
	}
	if asked < 27 {
		t.Errorf("only %d routes are documented", asked)
	}
	if security := doc.Paths["/cutwater/v1/health"]["get"].Security; security == nil || len(*security) != 0 {
		t.Error("the document does not say that health asks for no token")
	}
}

// conform returns where a value is not as a schema says.
func conform(doc document, schema map[string]any, v any, at string) []string {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		referred, ok := doc.Components.Schemas[name]
		if !ok {
			return []string{at + ": the document has no schema " + name}
		}
		return conform(doc, referred, v, at)
	}
	if choices, ok := schema["oneOf"].([]any); ok {
		var problems []string
		for _, c := range choices {
			p := conform(doc, c.(map[string]any), v, at)
			if len(p) == 0 {
				return nil
			}
			problems = append(problems, p...)
		}
		return problems
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		return []string{fmt.Sprintf("%s: %v is none of %v", at, v, enum)}
	}
	kind := schema["type"]
	switch v := v.(type) {
	case map[string]any:
		if kind != "object" {
			return []string{fmt.Sprintf("%s is an object, want %v", at, kind)}
		}
		return conformObject(doc, schema, v, at)
	case []any:
		if kind != "array" {
			return []string{fmt.Sprintf("%s is an array, want %v", at, kind)}
		}
		var problems []string
		for _, e := range v {
			problems = append(problems, conform(doc, schema["items"].(map[string]any), e, at+"[]")...)
		}
		return problems
	case string:
		if kind == "string" {
			return nil
		}
	case bool:
		if kind == "boolean" {
			return nil
		}
	case float64:
		if kind == "number" || kind == "integer" && v == float64(int64(v)) {
			return nil
		}
	case nil:
		if kind == "null" {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %v, want %v", at, v, kind)}
}

func conformObject(doc document, schema, v map[string]any, at string) []string {
	var problems []string
	properties, _ := schema["properties"].(map[string]any)
	values, _ := schema["additionalProperties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			problems = append(problems, fmt.Sprintf("%s.%v is missing", at, name))
		}
	}
	for name, e := range v {
		member, ok := properties[name].(map[string]any)
		switch {
		case ok:
			problems = append(problems, conform(doc, member, e, at+"."+name)...)
		case values != nil:
			problems = append(problems, conform(doc, values, e, at+".*")...)
		case properties != nil:
			problems = append(problems, fmt.Sprintf("%s.%s is not documented", at, name))
		}
	}
	return problems
}

// A value that is not as its schema says is found.
func TestConform(t *testing.T) {
	b := apitest.Sample()
	s := serve(t, b, api.Options{})
	_, text := ask(t, s, http.MethodGet, "/cutwater/v1/openapi.json", "")
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	ref := func(name string) map[string]any {
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	for _, c := range []struct {
		schema, value string
		fits          bool
	}{
		{"Health", `{"status":"ok"}`, true},
		{"Health", `{"status":1}`, false},
		{"Health", `{}`, false},
		{"Health", `{"status":"ok","more":1}`, false},
		{"Nothing", `{}`, false},
		{"messages.StatusTime", `{"status":"RUNNING","at_ms":1}`, true},
		{"messages.StatusTime", `{"status":"WALKING","at_ms":1}`, false},
		{"messages.StatusTime", `{"status":"RUNNING","at_ms":1.5}`, false},
		{"Stats", `{"min":0,"max":0,"avg":0,"p50":"NaN","p90":0.5,"p95":0,"p99":0,"p999":0}`, true},
		{"Stats", `{"min":0,"max":0,"avg":0,"p50":null,"p90":0.5,"p95":0,"p99":0,"p999":0}`, false},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.value), &v); err != nil {
			t.Fatal(err)
		}
		if problems := conform(doc, ref(c.schema), v, "value"); (len(problems) == 0) != c.fits {
			t.Errorf("%s %s: %v", c.schema, c.value, problems)
		}
	}
}
