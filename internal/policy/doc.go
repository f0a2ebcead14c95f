// Package policy holds rules of the house as tests that read the source: what the
// documentation of an actor lists is what it accepts, tests do not wait for a wall
// clock, and every exported name says what it is.
package policy
