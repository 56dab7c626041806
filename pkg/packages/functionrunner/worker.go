package functionrunner

import (
	"errors"
	"fmt"
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
		answer, err := renderPackage(cache, files, parent{
			running: func(image string) error { return send(out, response{Running: image}, limit) },
			container: func(call containerCall) (answer containerAnswer, err error) {
				if err = send(out, response{Container: &call}, limit); err == nil {
					err = receive(in, &answer, limit)
				}
				return answer, err
			},
		})
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

// parent is the process that has started this one. After an error of its methods this process ends.
type parent struct {
	// running is called before each function.
	running func(image string) error
	// container has a host run a function.
	container func(containerCall) (containerAnswer, error)
}

// renderPackage renders with a cache of what this process read and wrote before. It returns an
// error only if the parent does.
func renderPackage(cache *render.Cache, files kpt.Files, p parent) (response, error) {
	var lost error // an error of the parent
	result, err := cache.Render(files, func(image string, in functions.Input) (functions.Output, error) {
		if lost = errors.Join(lost, p.running(image)); lost != nil {
			return functions.Output{}, lost
		}
		out, err := functions.Run(image, in)
		unknown, is := errors.AsType[*functions.UnknownImageError](err)
		if !is {
			return out, err
		}
		return functions.RunContainer(image, in, func(list string) (functions.Container, error) {
			answer, err := p.container(containerCall{image, list})
			switch {
			case errors.Is(err, errSize):
				return functions.Container{}, fmt.Errorf("size of the input: %w", err)
			case err != nil:
				lost = err
				return functions.Container{}, err
			case answer.NotListed:
				return functions.Container{}, unknown
			case answer.Error != "":
				return functions.Container{}, errors.New(answer.Error)
			}
			return answer.Container, nil
		})
	})
	if lost != nil {
		return response{}, lost
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
