package api

import (
	"encoding/json"
	"math"

	"google.golang.org/protobuf/proto"
)

// Double is a number that Flink may write as "NaN".
type Double float64

// MarshalJSON implements json.Marshaler.
func (d Double) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(d)) {
		return []byte(`"NaN"`), nil
	}
	return json.Marshal(float64(d))
}

// encode makes the JSON of an answer.
func encode(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return appendMessage(nil, m.ProtoReflect())
	}
	return json.Marshal(v)
}
