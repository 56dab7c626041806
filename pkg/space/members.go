package space

import "context"

func (f *Fleet) watchMembers(ctx context.Context, s *Supervisor) {}
