// Package api is the HTTP API of a node.
package api
