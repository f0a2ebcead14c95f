// Package api is the HTTP API of a node: one API for the command, for Flink's tools
// and for other people's programs.
//
// # Who answers
//
// Any node answers everything. The API stands on a [Backend], which asks the node's
// metadata for records, and the coordinator of a job, wherever it runs, for a view of
// it; there is no redirect. What a coordinator does not say, because there is none or
// it is silent, is told from the job's record, so that a job that has ended and one
// that waits for a coordinator have the same members as one that runs.
//
// # Routes
//
// The table of routes (route.go and the functions that it calls) makes the router and
// the OpenAPI document, GET /cutwater/v1/openapi.json. Where Flink's monitoring REST
// API has a route, ours has its path, under /v1 and bare, its JSON and its status;
// what is ours alone is under /cutwater/v1; /metrics is for Prometheus. docs/http.md
// is the overview.
//
// # Flink's rules
//
// Its Java client is strict, so:
//
//   - an answer that says no is {"errors":[...]} and nothing beside it, the sentence
//     for people first, whatever the status;
//   - a number or truth value is never left out and never null; what is not known is
//     0, or -1 for a time; a number that is none is "NaN";
//   - a GET may have a body, which is ignored;
//   - ids are 32 hexadecimal digits, those of vertices, too: they are a hash of ours.
//     Paths take either.
//
// Package apitest holds the table of members that may not be missing, as a check of
// any server.
//
// # Safety
//
// With a token every request but those for health and readiness needs it; refusals are counted,
// answered with 429 where there are many, and logged once for each peer. Without one
// only names and addresses of this machine are answered. Pages of other sites can
// change nothing. [Server] and [Limit] bound the size, time and number of requests and
// connections; handlers bound bodies, streams, and what they wait for.
package api
