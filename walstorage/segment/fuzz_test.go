package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/walstorage"
)

// S5: any bytes give an error or a value that is valid, and that encodes to bytes that say the same.
func FuzzMetadata(f *testing.F) {
	wire := sample(f).append(nil)
	f.Add(wire)
	f.Add(wire[:len(wire)-1])
	f.Add(plain(f, 8, 8).append(nil))
	f.Add(wireOf(sample(f), []byte{0xa0, 0x06, 0x07}))
	f.Fuzz(func(t *testing.T, b []byte) {
		given := bytes.Clone(b)
		var m Metadata
		err := m.UnmarshalBinary(b)
		if !bytes.Equal(given, b) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if !errors.Is(err, walstorage.ErrCorrupt) {
				t.Fatalf("an error that is not corrupt: %v", err)
			}
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("decoded, but not valid: %v", err)
		}
		again, err := m.AppendBinary(nil)
		if err != nil || len(again) != m.EncodedLen() {
			t.Fatalf("%d bytes, %d expected, %v", len(again), m.EncodedLen(), err)
		}
		var second Metadata
		if err := second.UnmarshalBinary(again); err != nil || !second.equal(&m) {
			t.Fatalf("not the same after a round trip: %v\n%+v\n%+v", err, m, second)
		}
	})
}

func checkObject(t *testing.T, object []byte) {
	r, err := NewReader(object)
	if err != nil {
		if !errors.Is(err, walstorage.ErrCorrupt) && !errors.Is(err, ErrUnsupportedVersion) {
			t.Fatalf("an error of no kind: %v", err)
		}
		return
	}
	position := int64(HeaderLength)
	for v, err := range r.All() {
		if v.Position != position {
			t.Fatalf("a slice at %d, due at %d", v.Position, position)
		}
		position += v.Slice.Length
		if err != nil {
			if !errors.Is(err, walstorage.ErrCorrupt) && !errors.Is(err, ErrUnsupportedMagic) {
				t.Fatalf("an error of no kind: %v", err)
			}
			continue
		}
		if v.LastOffset > v.Slice.LastOffset || v.LastOffset < v.Slice.BaseOffset-1 || int64(len(v.Data)) > v.Slice.Length {
			t.Fatalf("slice %+v gave %d bytes up to offset %d", *v.Slice, len(v.Data), v.LastOffset)
		}
	}
	if position > int64(len(object)-TrailerLength) {
		t.Fatalf("the slices end at %d of %d", position, len(object))
	}
}

// S5: any bytes as a whole object.
func FuzzObject(f *testing.F) {
	object, _ := smallObject(f)
	f.Add(object)
	f.Add(object[:HeaderLength+TrailerLength])
	f.Add([]byte(headerMagic + trailerMagic))
	f.Fuzz(checkObject)
}

// S5: any index and any body in a good frame, which checksums would otherwise keep from the code behind them.
func FuzzFramedObject(f *testing.F) {
	object, md := smallObject(f)
	f.Add(object[HeaderLength:HeaderLength+md.BodyLength()], md.append(nil))
	f.Add([]byte{}, sample(f).append(nil))
	for _, body := range batchtest.Vectors() {
		f.Add(body, md.append(nil))
	}
	f.Fuzz(func(t *testing.T, body, index []byte) {
		checkObject(t, frameOf(md.ID, body, index))
	})
}

// S5: any bytes as a slice whose checksum fits.
func FuzzVerifySlice(f *testing.F) {
	for _, b := range batchtest.Vectors() {
		f.Add(b, int32(5), int64(100), int64(101))
		f.Add(join(batchtest.V1(), b), int32(5), int64(100), int64(110))
	}
	f.Fuzz(func(t *testing.T, data []byte, epoch int32, base, last int64) {
		slice := sliceOf(data, epoch, base, last)
		if slice.problem() != "" {
			return
		}
		prefix, lastOffset, err := VerifySlice(slice, data)
		if err != nil {
			if !errors.Is(err, walstorage.ErrCorrupt) && !errors.Is(err, ErrUnsupportedMagic) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !bytes.HasPrefix(data, prefix) || lastOffset > last || lastOffset < base-1 {
			t.Fatalf("%d of %d bytes up to %d", len(prefix), len(data), lastOffset)
		}
		// A builder takes the same prefix, and no more.
		b := newBuilder(t, BuilderConfig{})
		if len(data) == 0 || len(b.Buffer(0)) < len(data) {
			return
		}
		run := Run{Partition: partition(topicA, "a", 0), LeaderEpoch: epoch, EpochStart: 0, Base: base}
		appended, _ := appendBytes(t, b, run, data)
		if appended.Bytes != len(prefix) || appended.Next != lastOffset+1 {
			t.Fatalf("verified %d bytes up to %d, built %+v", len(prefix), lastOffset, appended)
		}
	})
}
