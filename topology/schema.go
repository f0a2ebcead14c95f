package topology

import (
	"bytes"
	"encoding/json"

	"cutwater/stream/catalog"
)

// JSONSchema is the JSON Schema (2020-12) of topology.yaml with the connectors of
// a catalog, for editors. Every scalar may also be a text with a variable.
func JSONSchema(cat *catalog.Catalog) []byte {
	g := schemaGenerator{cat}
	root := g.section(topologySection)
	root = append(object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "Cutwater topology"}}, root...)
	text, err := json.Marshal(root)
	var out bytes.Buffer
	if err == nil {
		err = json.Indent(&out, text, "", "  ")
	}
	if err != nil {
		panic(err) // the schema is made of texts, numbers and lists only
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// object is a JSON object that keeps its order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

type schemaGenerator struct{ catalog *catalog.Catalog }

func (g schemaGenerator) section(s *Section) object {
	properties := object{}
	required := []string{}
	for i := range s.Keys {
		k := &s.Keys[i]
		properties = append(properties, member{k.Name, append(object{{"description", k.Doc}}, g.key(k)...)})
		if k.Required {
			required = append(required, k.Name)
		}
	}
	out := object{{"type", "object"}, {"additionalProperties", false}, {"properties", properties}}
	if len(required) > 0 {
		out = append(out, member{"required", required})
	}
	return out
}

// variable is a text with a variable, which stands for a value of any type.
var variable = object{{"type", "string"}, {"pattern", `\$\{`}}

func orVariable(o object) object { return object{{"anyOf", []object{o, variable}}} }

func (g schemaGenerator) key(k *Key) object {
	var out object
	switch k.Kind {
	case Int:
		out = orVariable(bounded(object{{"type", "integer"}}, k))
	case Float:
		out = orVariable(bounded(object{{"type", "number"}}, k))
	case Bool:
		out = orVariable(object{{"type", "boolean"}})
	case Duration:
		out = orVariable(object{{"type", "string"}, {"pattern", `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}})
	case Size:
		out = object{{"anyOf", []object{{{"type", "integer"}}, {{"type", "string"}}}}}
	case Enum:
		out = orVariable(object{{"enum", k.Values}})
	case UID:
		out = orVariable(object{{"type", "string"}, {"pattern", uidPattern.String()}})
	case Names:
		out = object{{"anyOf", []object{{{"type", "string"}}, {{"type", "array"}, {"items", object{{"type", "string"}}}, {"minItems", 1}}}}}
	case Expression:
		out = expressionSchema
	case Expressions:
		out = object{{"type", "object"}, {"additionalProperties", expressionSchema}, {"minProperties", 1}}
	case Schema:
		layout := object{{"type", "object"}, {"additionalProperties", false}, {"required", []string{"timestamp"}},
			{"properties", object{{"timestamp", object{{"type", "string"}}}}}}
		out = object{{"type", "object"}, {"minProperties", 1},
			{"additionalProperties", object{{"anyOf", []object{{{"enum", typeNames}}, layout}}}}}
	case Block:
		return g.section(k.Section)
	case Blocks:
		return object{{"type", "array"}, {"items", g.section(k.Section)}, {"minItems", 1}}
	case Connector:
		return g.connectors(k.Name)
	default:
		out = object{{"type", "string"}}
	}
	if k.Default != "" {
		var v value
		_ = parseScalar(k, k.Default, &v)
		switch k.Kind {
		case Int:
			out = append(out, member{"default", v.int})
		case Float:
			out = append(out, member{"default", v.float})
		case Bool:
			out = append(out, member{"default", v.bool})
		default:
			out = append(out, member{"default", k.Default})
		}
	}
	return out
}

// expressionSchema: YAML turns `1` and `true` into other types.
var expressionSchema = object{{"type", []string{"string", "number", "boolean"}}}

func bounded(o object, k *Key) object {
	if k.Max <= k.Min {
		return o
	}
	return append(o, member{"minimum", k.Min}, member{"maximum", k.Max})
}

func (g schemaGenerator) connectors(key string) object {
	properties := object{}
	add := func(s *Section) {
		o := g.section(s)
		properties = append(properties, member{s.Name, append(object{{"description", s.Doc}}, o...)})
	}
	if key == "source" {
		for _, s := range g.catalog.Sources {
			add(sourceSection(s))
		}
	} else {
		for _, s := range g.catalog.Sinks {
			add(sinkSection(s))
		}
	}
	out := object{{"type", "object"}, {"minProperties", 1}, {"maxProperties", 1}}
	if len(properties) > 0 {
		out = append(out, member{"additionalProperties", false}, member{"properties", properties})
	}
	return out
}
