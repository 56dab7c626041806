// Package nested has maps of maps that keep no empty inner map. It is pure.
package nested

// Map is a map of maps. The zero Map is empty and can be set. Read it as any other map.
type Map[A, B comparable, V any] map[A]map[B]V

// Set sets the value at a and b.
func (m *Map[A, B, V]) Set(a A, b B, value V) {
	if *m == nil {
		*m = Map[A, B, V]{}
	}
	if (*m)[a] == nil {
		(*m)[a] = map[B]V{}
	}
	(*m)[a][b] = value
}

// Delete deletes the value at a and b, if there is one.
func (m Map[A, B, V]) Delete(a A, b B) {
	delete(m[a], b)
	if len(m[a]) == 0 {
		delete(m, a)
	}
}
