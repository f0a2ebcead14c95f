package api

import (
	"html"
	"strings"
)

// PlanAnswer is Flink's JobPlanInfo.
type PlanAnswer struct {
	Plan Plan `json:"plan"`
}

// Plan is what the web page draws.
type Plan struct {
	JID   string     `json:"jid"`
	Name  string     `json:"name"`
	Type  string     `json:"type"`
	Nodes []PlanNode `json:"nodes"`
}

// PlanNode is a vertex. Description is HTML.
type PlanNode struct {
	ID                  string      `json:"id"`
	Parallelism         int64       `json:"parallelism"`
	Operator            string      `json:"operator"`
	OperatorStrategy    string      `json:"operator_strategy"`
	Description         string      `json:"description"`
	OptimizerProperties struct{}    `json:"optimizer_properties"`
	Inputs              []PlanInput `json:"inputs,omitempty"`
}

// PlanInput is an edge into a vertex.
type PlanInput struct {
	Num          int    `json:"num"`
	ID           string `json:"id"`
	ShipStrategy string `json:"ship_strategy"`
	Exchange     string `json:"exchange"`
}

func (c *call) plan() (PlanAnswer, error) {
	s, err := c.job(0)
	if err != nil {
		return PlanAnswer{}, err
	}
	return PlanAnswer{planOf(s)}, nil
}

func planOf(s *jobState) Plan {
	p := Plan{JID: s.record.Job, Name: s.record.Name, Type: jobType(s.record.Graph), Nodes: []PlanNode{}}
	for _, v := range s.view.Plan.GetVertices() {
		node := PlanNode{ID: flinkID(v.Id), Parallelism: int64(v.Parallelism), Description: html.EscapeString(vertexName(v))}
		for _, e := range s.view.Plan.GetEdges() {
			if e.To == v.Id {
				node.Inputs = append(node.Inputs, PlanInput{Num: len(node.Inputs), ID: flinkID(e.From),
					ShipStrategy: strings.TrimSuffix(e.Partitioning.String(), "_EDGE"), Exchange: "pipelined_bounded"})
			}
		}
		p.Nodes = append(p.Nodes, node)
	}
	return p
}
