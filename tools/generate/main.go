// Command generate compiles messages/proto/*.proto to Go: the same output on
// every machine, because the compiler and the generator are pinned as modules
// and nothing has to be installed. Run it as `make generate`.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate PROTO_DIR OUT_DIR")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate writes one .pb.go file into out for each .proto file in dir.
func generate(dir, out string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return err
	}
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	slices.Sort(names)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become doc comments
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	var add func(fd *descriptorpb.FileDescriptorProto) error
	add = func(fd *descriptorpb.FileDescriptorProto) error {
		if seen[fd.GetName()] {
			return nil
		}
		seen[fd.GetName()] = true
		for _, dep := range fd.GetDependency() { // dependencies first, as protoc orders them
			f := files.FindFileByPath(dep)
			if f == nil {
				return fmt.Errorf("%s imports %s, which is not in %s", fd.GetName(), dep, dir)
			}
			if err := add(protodesc.ToFileDescriptorProto(f)); err != nil {
				return err
			}
		}
		request.ProtoFile = append(request.ProtoFile, fd)
		return nil
	}
	for _, f := range files {
		fd := protodesc.ToFileDescriptorProto(f)
		if err := add(fd); err != nil {
			return err
		}
	}
	plugin, err := (protogen.Options{}).New(request)
	if err != nil {
		return err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		if err := os.WriteFile(filepath.Join(out, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
