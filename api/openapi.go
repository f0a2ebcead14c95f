package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// object is a JSON object of the document; its members are written by name.
type object map[string]any

// openAPI describes the routes of a table, in OpenAPI 3.1. Flink's stand there once,
// under /v1.
func openAPI(table []route, version string) []byte {
	s := schemas{}
	failure := object{"description": "Why not.", "content": object{"application/json": object{"schema": s.of(reflect.TypeFor[Failure]())}}}
	paths := object{}
	for _, r := range table {
		if !strings.HasPrefix(r.path, "/v1/") && !strings.HasPrefix(r.path, "/cutwater/") && r.path != "/metrics" {
			continue
		}
		yes := object{"description": http.StatusText(r.status)}
		switch content, _, _ := strings.Cut(r.content, ";"); {
		case r.answer != nil && content == "":
			yes["content"] = object{"application/json": object{"schema": s.of(r.answer)}}
		case r.answer != nil:
			yes["content"] = object{content: object{"schema": s.of(r.answer)}}
		case content == "application/json":
			yes["content"] = object{content: object{"schema": object{"type": "object"}}}
		default:
			yes["content"] = object{content: object{"schema": object{"type": "string"}}}
		}
		operation := object{"summary": r.doc, "operationId": operationID(r), "responses": object{strconv.Itoa(r.status): yes, "default": failure}}
		if parameters := parametersOf(r); len(parameters) > 0 {
			operation["parameters"] = parameters
		}
		if r.body != nil {
			operation["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(r.body)}}}
		}
		if r.open {
			operation["security"] = []any{}
		}
		methods, _ := paths[r.path].(object)
		if methods == nil {
			methods = object{}
			paths[r.path] = methods
		}
		methods[strings.ToLower(r.method)] = operation
	}
	document, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "Cutwater", "version": version,
			"description": "Every node answers for the whole cluster. The paths under /v1 are those of Flink's monitoring REST API, and answer without /v1, too."},
		"security":   []any{object{}, object{"token": []any{}}},
		"paths":      paths,
		"components": object{"schemas": object(s), "securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	}, "", " ")
	if err != nil {
		panic(err) // it consists of maps, lists and strings
	}
	return append(document, '\n')
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

// operationID names a route in one word.
func operationID(r route) string {
	return strings.ToLower(r.method) + "_" + strings.Trim(notWord.ReplaceAllString(r.path, "_"), "_")
}

func parametersOf(r route) []any {
	var all []any
	for _, segment := range strings.Split(r.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			all = append(all, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, p := range r.query {
		all = append(all, object{"name": p.name, "in": "query", "description": p.doc, "schema": object{"type": p.kind}})
	}
	return all
}

// schemas are the types of the document, by name.
type schemas object

// of returns the schema of a type. Structs and messages are referred to.
func (s schemas) of(t reflect.Type) object {
	if t.Implements(reflect.TypeFor[proto.Message]()) {
		return s.message(reflect.New(t.Elem()).Interface().(proto.Message).ProtoReflect().Descriptor())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.Struct:
		if _, known := s[t.Name()]; !known && t.Name() != "" {
			s[t.Name()] = nil // a name in work
			s[t.Name()] = s.structure(t)
		}
		if t.Name() == "" {
			return s.structure(t)
		}
		return reference(t.Name())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float64:
		return double()
	}
	panic(fmt.Sprintf("api: the type %v has no schema", t))
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func nullable(schema object) object {
	return object{"oneOf": []any{schema, object{"type": "null"}}}
}

func double() object {
	return object{"oneOf": []any{object{"type": "number"}, object{"type": "string", "enum": []any{"NaN"}}}}
}

func (s schemas) structure(t reflect.Type) object {
	properties, required := object{}, []any{}
	s.members(t, true, properties, &required)
	return object{"type": "object", "properties": properties, "required": required}
}

// members adds the members of a struct, those of embedded ones included; those of a
// pointer may be missing.
func (s schemas) members(t reflect.Type, all bool, properties object, required *[]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			embedded, there := f.Type, all
			if embedded.Kind() == reflect.Pointer {
				embedded, there = embedded.Elem(), false
			}
			s.members(embedded, there, properties, required)
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		omitted := option == "omitempty"
		schema := s.of(f.Type)
		if omitted && f.Type.Kind() == reflect.Pointer {
			schema = s.of(f.Type.Elem())
		}
		properties[name] = schema
		if all && !omitted {
			*required = append(*required, name)
		}
	}
}

// message returns the schema of what appendMessage writes.
func (s schemas) message(d protoreflect.MessageDescriptor) object {
	name := "messages." + string(d.Name())
	if _, known := s[name]; known {
		return reference(name)
	}
	s[name] = nil // a name in work
	properties, required := object{}, []any{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		schema := s.value(f)
		switch {
		case f.IsList():
			schema = object{"type": "array", "items": schema}
		case f.Message() != nil:
			schema = nullable(schema)
		}
		properties[string(f.Name())] = schema
		if f.ContainingOneof() == nil {
			required = append(required, string(f.Name()))
		}
	}
	s[name] = object{"type": "object", "properties": properties, "required": required}
	return reference(name)
}

func (s schemas) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return s.message(f.Message())
	case protoreflect.EnumKind:
		names := []any{}
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return object{"type": "string", "enum": names}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind, protoreflect.BytesKind:
		return object{"type": "string"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return double()
	}
	return object{"type": "integer"}
}
