package replica

import "plimsoll/actors/fleet"

// unlikes are requests to which the same happened one after the other, no two of which are alike.
type unlikes []fleet.Likeness

// unlikesMax bounds what is remembered: those that came last.
const unlikesMax = 16

// add takes one more, unless it is alike one that is there.
func (u *unlikes) add(l fleet.Likeness, alike func(a, b *fleet.Likeness) bool) {
	for i := range *u {
		if alike(&(*u)[i], &l) {
			return
		}
	}
	if len(*u) == unlikesMax {
		*u = append((*u)[:0], (*u)[1:]...)
	}
	*u = append(*u, l)
}

// sameHead says of prompts that they share a block.
func sameHead(a, b *fleet.Likeness) bool { return a.Head == b.Head }

// sameWhole says of prompts that they are the same.
func sameWhole(a, b *fleet.Likeness) bool { return a.Whole == b.Whole }

// spread says whether they are of different tenants, and of different adapters, if the model has several in use.
func (u unlikes) spread() bool {
	last := &u[len(u)-1]
	tenants, adapters := !last.Several.Tenants, !last.Several.Adapters
	for i := range u {
		tenants = tenants || u[i].Tenant != last.Tenant
		adapters = adapters || u[i].LoRA != last.LoRA
	}
	return tenants && adapters
}
