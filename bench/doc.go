// Package bench measures Cutwater beside a hand-written loop of the same work in
// the same run. What counts is the ratio of the processor time per record: it
// holds on a busy machine, absolute figures do not.
//
//	go test ./bench -bench . -benchtime 1x
package bench
