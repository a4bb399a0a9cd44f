package objectstore_test

import (
	"context"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// stub is a driver of which a test says what some of its methods do. The others succeed and do nothing.
type stub struct {
	put    func(ctx context.Context, body *objectstore.Body) error
	get    func(ctx context.Context, dst []byte) error
	stat   func(ctx context.Context) (objectstore.Object, error)
	del    func(ctx context.Context, keys []string) error
	list   func(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error)
	close  func() error
	limits objectstore.Limits
}

func (s *stub) Put(ctx context.Context, _ string, body *objectstore.Body, _ uint32) error {
	if s.put == nil {
		return nil
	}
	return s.put(ctx, body)
}

func (s *stub) Get(ctx context.Context, _ string, _ int64, dst []byte) error {
	if s.get == nil {
		return nil
	}
	return s.get(ctx, dst)
}

func (s *stub) Stat(ctx context.Context, _ string) (objectstore.Object, error) {
	if s.stat == nil {
		return objectstore.Object{}, nil
	}
	return s.stat(ctx)
}

func (s *stub) Delete(ctx context.Context, keys []string) error {
	if s.del == nil {
		return nil
	}
	return s.del(ctx, keys)
}

func (s *stub) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	if s.list == nil {
		return nil, "", nil
	}
	return s.list(ctx, prefix, token)
}

func (s *stub) Limits() objectstore.Limits { return s.limits }

func (s *stub) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}
