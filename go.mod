module github.com/walhop/walhop

go 1.26.0

require github.com/google/uuid v1.6.0

require (
	github.com/stretchr/testify v1.12.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
