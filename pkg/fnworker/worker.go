package fnworker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
)

// argument is what tells our binary that it is a worker. Memory in bytes and the largest message follow.
const argument = "__function-worker"

// gcPercent lets garbage be: a call makes little that stays, and what it holds at most is limited otherwise.
const gcPercent = 400

// maxStack bounds recursion of a program: it dies of that, not the machine.
const maxStack = 64 << 20

// Main serves calls until its input ends, if this process is a worker; else it returns false at once. Then main must end.
func Main() (worker bool, err error) {
	if len(os.Args) != 4 || os.Args[1] != argument {
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
	debug.SetMemoryLimit(bytes / 4 * 3) // the collector works harder before the end
	debug.SetMaxStack(maxStack)
	remembered := &render.Memory{}
	for {
		var call request
		if err := receive(in, &call, limit); err == io.EOF { //nolint:errorlint // not wrapped: the end between two calls
			return nil
		} else if err != nil {
			return err
		}
		answer, err := handle(remembered, call, func(image string) error { return send(out, response{Running: image}, limit) })
		if err != nil {
			return err
		}
		if err := send(out, answer, limit); err != nil {
			if err := send(out, response{Error: "what the function made " + err.Error()}, limit); err != nil {
				return err
			}
		}
	}
}

func handle(memory *render.Memory, call request, running func(image string) error) (response, error) {
	if call.Render {
		return rendered(memory, call.Files, running)
	}
	return run(call), nil
}

// run runs a function. Objects that it leaves as they were are not sent back.
func run(call request) response {
	in := functions.Input{}
	type place struct {
		path  string
		index int
	}
	before := map[place]int{}
	for i, given := range call.Items {
		node, err := decode(given.Text)
		if err != nil {
			return response{Error: fmt.Sprintf("%s: %v", given.Path, err)}
		}
		before[place{given.Path, given.Index}] = i
		in.Items = append(in.Items, functions.Item{Path: given.Path, Index: given.Index, Node: node})
	}
	if call.Config != "" {
		node, err := decode(call.Config)
		if err != nil {
			return response{Error: fmt.Sprintf("functionConfig: %v", err)}
		}
		in.Config = node
	}
	made, err := functions.Run(call.Image, in)
	out := response{Results: made.Results, Stderr: made.Stderr}
	if err != nil {
		out.Error = err.Error()
		_, out.Runaway = errors.AsType[*functions.RunawayError](err)
		return out
	}
	if out.Items, err = encode(made.Items); err != nil {
		out.Error = err.Error()
		return out
	}
	for i, item := range out.Items {
		if from, ok := before[place{item.Path, item.Index}]; ok && call.Items[from].Text == item.Text {
			out.Items[i].Text, out.Items[i].Same = "", from+1
		}
	}
	return out
}
