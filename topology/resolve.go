package topology

import (
	"slices"
	"strings"

	"cutwater/stream/catalog"
)

// resolver turns the blocks of operators into Operators.
type resolver struct {
	*decoder
	topology *Topology
	catalog  *catalog.Catalog
}

// resolve fills the topology's operators.
func (r *resolver) resolve(top *block) {
	if t := r.topology; t.MaxParallelism > 0 && t.Parallelism > t.MaxParallelism {
		r.add(ruleParallelism, top.at("parallelism"), "the parallelism %d is above max-parallelism %d; lower it, or raise max-parallelism", t.Parallelism, t.MaxParallelism)
	}
	if top.has("operators") && len(top.value("operators").list) == 0 {
		r.add(ruleOperator, top.at("operators"), "operators is an empty list; a topology has at least a source and a sink")
	}
	byUid := map[string]*Operator{}
	for _, b := range top.value("operators").list {
		op := &Operator{
			Uid: b.value("uid").text, Position: b.node.at, block: b,
			Parallelism: int(b.value("parallelism").int),
		}
		if b.node.shape != mapping {
			continue // was reported
		}
		op.Kind = r.kindOf(op)
		r.topology.Operators = append(r.topology.Operators, op)
		if other := byUid[op.Uid]; other != nil {
			r.add(ruleUid, b.value("uid").node.at, "the uid %q is already that of the operator in line %d; give this one its own", op.Uid, other.Line)
		} else if op.Uid != "" {
			byUid[op.Uid] = op
		}
	}
	for _, op := range r.topology.Operators {
		r.inputs(op, byUid)
		r.parallelism(op)
	}
	if !r.sort() {
		return // schemas cannot be followed around a circle
	}
	for _, op := range r.topology.order {
		r.operator(op)
	}
}

// kindOf finds the one key that says what the operator does.
func (r *resolver) kindOf(op *Operator) OperatorKind {
	var found []string
	for _, kind := range []OperatorKind{Source, Filter, Map, Aggregate, Process, Sink} {
		if op.block.node.get(string(kind)) != nil {
			found = append(found, string(kind))
		}
	}
	name := operatorName(op)
	switch {
	case len(found) == 1:
		kind := OperatorKind(found[0])
		r.belongs(op, "event-time", kind, Source)
		r.belongs(op, "window", kind, Aggregate)
		r.belongs(op, "on-error", kind, Filter, Map, Aggregate)
		r.belongs(op, "key-by", kind, Aggregate, Process)
		r.belongs(op, "schema", kind, Process)
		return kind
	case len(found) > 1:
		r.add(ruleOperator, op.block.at(found[1]), "%s has the keys %s, and an operator does one thing; make several operators of it", name, list(found, "and"))
		return ""
	case len(op.block.value("input").names) > 1:
		for _, key := range []string{"parallelism", "event-time", "window", "key-by", "schema", "on-error"} {
			r.belongs(op, key, Union)
		}
		return Union
	}
	r.add(ruleOperator, op.Position, "%s does nothing; give it one of source, filter, map, aggregate, process and sink, or several inputs for a union", name)
	return ""
}

// belongs reports a key that the operator's kind has no use for.
func (r *resolver) belongs(op *Operator, key string, kind OperatorKind, to ...OperatorKind) {
	if op.block.node.get(key) != nil && !slices.Contains(to, kind) {
		r.add(ruleOperator, op.block.at(key), "%s is a %s, and %q belongs to %s", operatorName(op), kind, key, kinds(to))
	}
}

func kinds(of []OperatorKind) string {
	if len(of) == 0 {
		return "other operators"
	}
	words := make([]string, len(of))
	for i, k := range of {
		words[i] = string(k)
	}
	return "an operator with " + list(words, "or")
}

func operatorName(op *Operator) string {
	if op.Uid == "" {
		return "this operator"
	}
	return `"` + op.Uid + `"`
}

// inputs resolves the names of an operator's inputs.
func (r *resolver) inputs(op *Operator, byUid map[string]*Operator) {
	names := op.block.value("input").names
	given := op.block.node.get("input") != nil
	switch {
	case op.Kind == Source && given:
		r.add(ruleInput, op.block.at("input"), "%s is a source and has no input; remove the key", operatorName(op))
		return
	case op.Kind != "" && op.Kind != Source && !given:
		r.add(ruleInput, op.Position, "%s needs an input: the uid of the operator that it reads", operatorName(op))
		return
	case len(names) > 1 && op.Kind != Union && op.Kind != "":
		r.add(ruleInput, names[1].at, "%s reads several inputs, and only a union does; put an operator with these inputs and nothing else in between", operatorName(op))
		return
	}
	for _, n := range names {
		uid, side, hasSide := strings.Cut(n.text, ".")
		from := byUid[uid]
		switch {
		case from == nil:
			r.add(ruleInput, n.place(0), "there is no operator %q%s", uid, suggest(uid, uids(byUid)))
		case from.Kind == Sink:
			r.add(ruleInput, n.place(0), "%q is a sink and has no output to read", uid)
		case hasSide && !r.hasSide(from, side):
			r.add(ruleInput, n.place(len(uid)), "%q has no output %q; there are `uid.late` of an aggregate with a window and `uid.malformed` of a source with `malformed: side`", uid, side)
		default:
			op.Inputs = append(op.Inputs, Input{from, side})
		}
	}
}

func (r *resolver) hasSide(from *Operator, side string) bool {
	switch side {
	case lateSide:
		return from.Kind == Aggregate && from.block.node.get("window") != nil
	case malformedSide:
		if from.Kind != Source {
			return false
		}
		// The connector's options are read later; look at the node itself.
		for _, connector := range from.block.node.get("source").entries {
			if m := connector.value.get("malformed"); m != nil && m.text == "side" {
				return true
			}
		}
	}
	return false
}

func uids(byUid map[string]*Operator) []string {
	out := make([]string, 0, len(byUid))
	for uid := range byUid {
		out = append(out, uid)
	}
	slices.Sort(out)
	return out
}

func (r *resolver) parallelism(op *Operator) {
	limit := r.topology.MaxParallelism
	p, at := op.Parallelism, op.block.at("parallelism")
	if p == 0 || limit == 0 {
		return
	}
	if p > limit {
		r.add(ruleParallelism, at, "the parallelism %d of %s is above max-parallelism %d; lower it, or raise max-parallelism", p, operatorName(op), limit)
	}
}

// sort orders the operators so that inputs come first; it reports cycles.
func (r *resolver) sort() (acyclic bool) {
	acyclic = true
	const (
		unseen = iota
		open
		done
	)
	state := map[*Operator]int{}
	var path []*Operator
	var visit func(op *Operator)
	visit = func(op *Operator) {
		switch state[op] {
		case done:
			return
		case open:
			at := slices.Index(path, op)
			words := make([]string, 0, len(path)-at+1)
			for _, p := range path[at:] {
				words = append(words, p.Uid)
			}
			words = append(words, op.Uid)
			slices.Reverse(words)
			acyclic = false
			r.add(ruleCycle, op.block.at("input"), "the operators read each other in a circle: %s; break it at %q", strings.Join(words, " -> "), op.Uid)
			return
		}
		state[op] = open
		path = append(path, op)
		for _, in := range op.Inputs {
			visit(in.Operator)
		}
		path = path[:len(path)-1]
		state[op] = done
		r.topology.order = append(r.topology.order, op)
	}
	for _, op := range r.topology.Operators {
		visit(op)
	}
	return acyclic
}
