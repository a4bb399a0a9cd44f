package caseresults_test

import (
	"testing"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

func Example() {
	test := func(t *testing.T) {
		store := memory.NewStore()
		conformance.Run(t, conformance.Config{
			Driver: func(testing.TB) objectstore.Driver { return memory.New(memory.Config{Store: store}) },
			Report: caseresults.Record(t, "mystore"),
		})
	}
	_ = test // go test calls it
}
