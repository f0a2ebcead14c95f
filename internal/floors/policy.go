package floors

// Policy says which package may import which: lower floors never import higher
// ones. It is a decision of the design; do not loosen it to mend a build, and say
// in docs/design why when it must change.
//
//	a, b < c < d;    c may import a and b; d may import a, b and c
//	a !< b;          b must not import a, whatever else is said
//
// "x/..." is x and all packages below it, "..." every package of this module. The
// first statement is the floors, lowest first. An import within the module or of
// another module needs a rule; the standard library is free where nothing forbids
// it.
//
// Test files may also import their own floor, the test kits, and any module.
const Policy = `
# The floors.
  messages/...
< protocol/..., codec/...
< state/..., storage/..., cluster/...
< stream/..., topology/..., connector/...
< actors/...
< node/..., testkit/...
< api/...
< cmd/..., bench/..., examples/..., test/...;

# Aside from the house: tools of the build, and helpers of tests. They import nothing
# of it, and nothing but tests imports them.
NONE < internal/..., tools/..., .ci/...;

# Floor 0: generated messages; describe prints them.
messages < messages/describe;

# Floor 1: machines. Few know of each other.
protocol < protocol/...;
protocol/keygroup < codec/..., protocol/restore, protocol/job;
protocol/barrier < protocol/subtask;
protocol/checkpoint, protocol/restore, protocol/split, protocol/metadata < protocol/job;
protocol/metadata < protocol/dispatch;
codec < codec/...;

# Floor 2: what touches disks and other nodes, behind small interfaces.
storage, storage/vfs, storage/failpoint, storage/boltdb < storage/..., state/..., cluster/...;
storage/filestore < storage/memstore;
state, state/segment < state/...;
cluster/... < cluster/...;

# Floor 3: what users write against. Connectors share helpers, and do not know each
# other.
stream/... < stream/..., topology/..., connector/...;
topology/... < topology/...;
connector/rowtext, connector/internal/... < connector/...;

# Floor 4: actors talk only by messages, so no actor imports another one.
actors/system < actors/...;

# Floors 5 and 6. Between them the API stands on an interface, which the command
# implements with a node.
node/... < node/..., testkit/...;
api/... < api/...;
actors/..., node/..., testkit/..., connector/..., cluster/..., state/..., storage/... !< api/...;
cmd/... < cmd/..., bench/..., examples/...;
examples/... < examples/...;

# Other modules, and where they may be used.
google.golang.org/protobuf/... < ...;
github.com/cespare/xxhash/v2 < protocol/keygroup, state/..., storage/..., connector/..., testkit/...;
go.etcd.io/bbolt/... < storage/boltdb, state/bolt, cluster/metadata/...;
github.com/hashicorp/... < cluster/...;
golang.org/x/sys/... < storage/vfs, cluster/..., cmd/...;
github.com/goccy/go-yaml/... < topology/...;
github.com/expr-lang/expr/... < topology/expression;
github.com/asynkron/protoactor-go/... < actors/system, node/..., testkit/...;
github.com/spf13/..., golang.org/x/term < cmd/...;
github.com/cockroachdb/datadriven < internal/script;
go.uber.org/goleak < internal/leak;
github.com/bufbuild/protocompile/... < tools/generate;
pgregory.net/rapid, github.com/google/go-cmp/..., go.uber.org/goleak <
	storage/vfs/vfstest, storage/storagetest, state/statetest, connector/connectortest, testkit/...;

# A machine is a function: no clock, goroutine's tools, lock, randomness, input or
# output, and no actor library.
sync/..., time, context, os/..., io/..., path/filepath, net/..., syscall, runtime/..., unsafe,
math/rand/..., crypto/rand, log/..., testing/... !< protocol/...;

# Only the edges of the house know the connectors.
connector/... !< actors/...;

# The core serves no web page and reads no command line.
net/http/..., html/..., flag, github.com/spf13/... !<
	messages/..., protocol/..., codec/..., state/..., storage/..., cluster/...,
	stream/..., topology/..., actors/...;

# Files are reached through an injected file system, time and chance through arguments.
os/... !< storage/filestore, storage/memstore, state/segment, state/heap,
	stream/..., topology/..., connector/file, connector/filesink;
math/rand/..., crypto/rand !< state/..., stream/..., actors/...;

# Only test kits know the testing package.
testing/... !< messages/..., codec/..., stream/..., topology/..., actors/..., node/..., cmd/...;
`
