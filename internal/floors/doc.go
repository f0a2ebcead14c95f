// Package floors holds the import policy of the house as a text, and checks it in
// its test, in the style of the Go tree's go/build/deps_test.go.
//
// Because the compiler and this test agree on who may import whom, some sentences
// of the design are proved by the build: machines are functions, actors talk only
// by messages, the core knows no connector and serves no web page.
package floors
