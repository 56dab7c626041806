package fnworker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
)

// Render renders a package in one process: its objects go there and back once, and not once with each function. Each function has the
// time that a call has, and all together have one. Errors are those of render.Render, or a KilledError, which names the function that ran.
func (p *Pool) Render(ctx context.Context, files kptpkg.Files) (render.Result, error) {
	answer, err := p.do(ctx, request{Render: true, Files: files})
	if err == nil && answer.Rendering == nil {
		err = errors.New(answer.Error) // the answer was too large
	}
	if err != nil {
		return render.Result{Files: files, Results: render.ResultList{ExitCode: 1}}, err
	}
	out := render.Result{Files: files, Results: answer.Rendering.Results}
	switch {
	case answer.Rendering.Package:
		return out, &render.PackageError{Err: errors.New(answer.Error)}
	case answer.Error != "":
		return out, errors.New(answer.Error)
	}
	if len(answer.Rendering.Changed)+len(answer.Rendering.Removed) > 0 {
		out.Files = maps.Clone(files)
		maps.Copy(out.Files, answer.Rendering.Changed)
		for _, name := range answer.Rendering.Removed {
			delete(out.Files, name)
		}
	}
	return out, nil
}

// rendered is Render in the process, which remembers what it read and wrote before. An error is one of telling what is running.
func rendered(memory *render.Memory, files kptpkg.Files, running func(image string) error) (response, error) {
	var untold error
	result, err := memory.Render(files, func(image string, in functions.Input) (functions.Output, error) {
		if untold = errors.Join(untold, running(image)); untold != nil {
			return functions.Output{}, untold
		}
		return functions.Run(image, in)
	})
	if untold != nil {
		return response{}, untold
	}
	out := response{Rendering: &rendering{Results: result.Results}}
	if err != nil {
		out.Error = err.Error()
		_, out.Runaway = errors.AsType[*functions.RunawayError](err)
		_, out.Rendering.Package = errors.AsType[*render.PackageError](err)
		return out, nil
	}
	changed := kptpkg.Files{}
	for name, content := range result.Files {
		if was, there := files[name]; !there || was != content {
			changed[name] = content
		}
	}
	out.Rendering.Changed = changed
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, there := result.Files[name]; !there {
			out.Rendering.Removed = append(out.Rendering.Removed, name)
		}
	}
	return out, nil
}
