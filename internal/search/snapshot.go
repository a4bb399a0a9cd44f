package search

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
)

// snapshot appends what is in a value, unexported fields and what they point to included, so that two values with one
// snapshot behave alike from here on. Left out are the fields named: locks, counters, callbacks. A field that is added to
// a type is in its snapshot without a change here.
func snapshot(dst []byte, v any, leftOut ...string) []byte {
	s := snapshotter{dst: dst, leftOut: leftOut, seen: map[uintptr]int{}}
	s.value(reflect.ValueOf(v))
	return s.dst
}

type snapshotter struct {
	dst     []byte
	leftOut []string
	seen    map[uintptr]int // pointers by the order in which they were met
}

func (s *snapshotter) number(n int64) { s.dst = binary.AppendVarint(s.dst, n) }

func (s *snapshotter) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		s.number(0)
		if v.Bool() {
			s.dst[len(s.dst)-1] = 1
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.number(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.number(int64(v.Uint()))
	case reflect.String:
		s.number(int64(v.Len()))
		s.dst = append(s.dst, v.String()...)
	case reflect.Array, reflect.Slice:
		s.number(int64(v.Len()))
		for i := range v.Len() {
			s.value(v.Index(i))
		}
	case reflect.Struct:
		s.fields(v)
	case reflect.Pointer:
		if v.IsNil() {
			s.number(-1)
			return
		}
		at, known := s.seen[v.Pointer()]
		if !known {
			at = len(s.seen)
			s.seen[v.Pointer()] = at
		}
		s.number(int64(at))
		if !known {
			s.value(v.Elem())
		}
	case reflect.Map:
		s.entries(v)
	default:
		panic(fmt.Sprintf("search: no snapshot of a %s", v.Type()))
	}
}

func (s *snapshotter) fields(v reflect.Value) {
	from := 0 // a chain has a head: what lies before it has been dropped
	if head := v.FieldByName("head"); head.IsValid() {
		from = int(head.Int())
	}
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		switch {
		case slices.Contains(s.leftOut, name), name == "head":
		case name == "entries" && from > 0:
			s.value(field.Slice(from, field.Len()))
		default:
			s.value(field)
		}
	}
}

// entries goes through a map by the order of its keys.
func (s *snapshotter) entries(v reflect.Value) {
	type entry struct {
		key   []byte
		value reflect.Value
	}
	var all []entry
	for i := v.MapRange(); i.Next(); {
		k := snapshotter{seen: map[uintptr]int{}}
		k.value(i.Key())
		all = append(all, entry{k.dst, i.Value()})
	}
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	s.number(int64(len(all)))
	for _, e := range all {
		s.dst = append(s.dst, e.key...)
		s.value(e.value)
	}
}
