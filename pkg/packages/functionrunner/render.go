package functionrunner

import (
	"context"
	"errors"
	"maps"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
)

// Render renders a package in one process. It blocks until a process is free or ctx ends. Each
// function has Timeout, and all together have RenderTimeout. Errors are those of render.Render, or
// a KilledError that names the function.
func (p *Pool) Render(ctx context.Context, files kpt.Files) (render.Result, error) {
	answer, err := p.dispatch(ctx, files)
	if err != nil {
		return render.Result{Files: files, Results: porchv1alpha1.ResultList{ExitCode: 1}}, err
	}
	out := render.Result{Files: files, Results: answer.Results}
	switch {
	case answer.Runaway:
		image := ""
		if ran := answer.Results.Items; len(ran) > 0 {
			image = ran[len(ran)-1].Image
		}
		return out, &KilledError{image, answer.Error}
	case answer.Package:
		return out, &render.PackageError{Err: errors.New(answer.Error)}
	case answer.Error != "":
		return out, errors.New(answer.Error)
	}
	if len(answer.Changed)+len(answer.Removed) > 0 {
		out.Files = maps.Clone(files)
		maps.Copy(out.Files, answer.Changed)
		for _, name := range answer.Removed {
			delete(out.Files, name)
		}
	}
	return out, nil
}
