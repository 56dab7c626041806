package functionrunner

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
)

// workerArgument makes our binary a worker. The memory limit in bytes and the largest message
// follow it.
const workerArgument = "__function-worker"

// gcPercent makes the collector run rarely: rendering allocates little that remains, and another
// limit bounds the memory.
const gcPercent = 400

// maxStack bounds recursion, so that the process dies and not the machine.
const maxStack = 64 << 20

// Main renders packages until its input ends, and returns true, if this process is a worker.
// Otherwise it returns false at once.
func Main() (worker bool, err error) {
	if len(os.Args) != 4 || os.Args[1] != workerArgument {
		return false, nil
	}
	return true, serve(os.Stdin, os.Stdout, os.Args[2], os.Args[3])
}

func serve(in io.Reader, out io.Writer, memory, message string) error {
	bytes, err := strconv.ParseInt(memory, 10, 64)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(message)
	if err != nil {
		return err
	}
	if err := limitMemory(bytes); err != nil {
		return err
	}
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(bytes / 4 * 3) // the collector works harder before the hard limit
	debug.SetMaxStack(maxStack)
	cache := &render.Cache{}
	for {
		var files kpt.Files
		if err := receive(in, &files, limit); err == io.EOF { //nolint:errorlint // not wrapped: the end between two packages
			return nil
		} else if err != nil {
			return err
		}
		answer, err := renderPackage(cache, files, func(image string) error { return send(out, response{Running: image}, limit) })
		if err != nil {
			return err
		}
		if err := send(out, answer, limit); err != nil {
			tooLarge := response{Error: "size of the output: " + err.Error(), Results: porchv1alpha1.ResultList{ExitCode: 1}}
			if err := send(out, tooLarge, limit); err != nil {
				return err
			}
		}
	}
}

// renderPackage renders with a cache of what this process read and wrote before. It returns an
// error only if running fails, which is called before each function.
func renderPackage(cache *render.Cache, files kpt.Files, running func(image string) error) (response, error) {
	var notifyErr error
	result, err := cache.Render(files, func(image string, in functions.Input) (functions.Output, error) {
		if notifyErr = errors.Join(notifyErr, running(image)); notifyErr != nil {
			return functions.Output{}, notifyErr
		}
		return functions.Run(image, in)
	})
	if notifyErr != nil {
		return response{}, notifyErr
	}
	out := response{Results: result.Results, Changed: kpt.Files{}}
	if err != nil {
		out.Error = err.Error()
		_, out.Runaway = errors.AsType[*functions.RunawayError](err)
		_, out.Package = errors.AsType[*render.PackageError](err)
		return out, nil
	}
	for name, content := range result.Files {
		if was, there := files[name]; !there || was != content {
			out.Changed[name] = content
		}
	}
	for name := range files {
		if _, there := result.Files[name]; !there {
			out.Removed = append(out.Removed, name)
		}
	}
	return out, nil
}
