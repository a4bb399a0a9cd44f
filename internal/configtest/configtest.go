// Package configtest holds a configuration to what is expected of every one: a value that is empty, malformed or out of
// range where it must not be gives an error of kind walstorage.ErrInvalidArgument that names the field and holds no
// secret; and no field is forgotten, neither by the configuration's check nor by its test.
package configtest

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/walhop/walhop/walstorage"
)

// Secret is what a test plants in a value that must not be repeated in an error text.
const Secret = "planted-secret-0123456789"

// Table is the test of one configuration.
type Table[C any] struct {
	// Valid has its required fields set and no other. Each change is made to a copy of it.
	Valid C
	// Open makes what is configured and closes it again. Of a valid configuration its error is nil.
	Open func(tb testing.TB, config C) error
	// Wrong are the changes that have to be refused, by the name of the field that the error has to name. A name with a
	// dot is that of a field in a field; the last part is what the error names.
	Wrong map[string][]func(config *C)
	// Any are the fields of which every value is right, with the reason.
	Any map[string]string
}

// Run checks the table.
func Run[C any](t *testing.T, table Table[C]) {
	t.Run("valid", func(t *testing.T) {
		if err := table.Open(t, table.Valid); err != nil {
			t.Errorf("the configuration that the others are made of is refused: %v", err)
		}
	})
	for field, changes := range table.Wrong {
		t.Run(field, func(t *testing.T) {
			name := field[strings.LastIndex(field, ".")+1:]
			whole := regexp.MustCompile(`\b` + name + `\b`)
			for i, change := range changes {
				config := table.Valid
				change(&config)
				switch err := table.Open(t, config); {
				case err == nil:
					t.Errorf("change %d of %s is not refused", i, field)
				case !errors.Is(err, walstorage.ErrInvalidArgument):
					t.Errorf("change %d of %s: the error is not of kind ErrInvalidArgument: %v", i, field, err)
				case !whole.MatchString(err.Error()):
					t.Errorf("change %d of %s: the error does not name the field: %v", i, field, err)
				case strings.Contains(err.Error(), Secret):
					t.Errorf("change %d of %s: the error holds a secret", i, field)
				}
			}
		})
	}
	t.Run("complete", func(t *testing.T) {
		for _, problem := range table.incomplete() {
			t.Error(problem)
		}
	})
}

// incomplete lists the fields that the table has forgotten, and those that it should not have.
func (table Table[C]) incomplete() (problems []string) {
	wrong := map[string]bool{}
	for field, changes := range table.Wrong {
		if len(changes) > 0 {
			top, _, _ := strings.Cut(field, ".")
			wrong[top] = true
		}
	}
	known := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[C]()) {
		if !field.IsExported() {
			continue
		}
		known[field.Name] = true
		reason, any := table.Any[field.Name]
		switch {
		case wrong[field.Name] && any:
			problems = append(problems, field.Name+" has wrong values, and is said to have none")
		case any && reason == "":
			problems = append(problems, field.Name+" is said to have no wrong value, without a reason")
		case !wrong[field.Name] && !any:
			problems = append(problems, field.Name+" is not in the table")
		}
	}
	for field := range wrong {
		if !known[field] {
			problems = append(problems, field+" is in the table, and no field")
		}
	}
	for field := range table.Any {
		if !known[field] {
			problems = append(problems, field+" is in the table, and no field")
		}
	}
	return problems
}

// First opens valid with the first of the changes to each field, which has to be refused, and gives what does so by the
// last part of the field's name.
func First[C any](valid C, wrong map[string][]func(config *C), open func(config C) error) map[string]func() error {
	fields := map[string]func() error{}
	for field, changes := range wrong {
		config := valid
		changes[0](&config)
		fields[field[strings.LastIndex(field, ".")+1:]] = func() error { return open(config) }
	}
	return fields
}
