package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/walhop/walhop/walstorage"
)

// S5: any bytes give an error or a value that is valid, and that encodes to bytes that say the same.
func FuzzMetadata(f *testing.F) {
	var used Metadata // what was decoded before leaves no trace
	f.Fuzz(func(t *testing.T, b []byte) {
		given := bytes.Clone(b)
		var m Metadata
		err := m.UnmarshalBinary(b)
		if again := used.UnmarshalBinary(b); (again == nil) != (err == nil) || err == nil && !used.equal(&m) {
			t.Fatalf("into a Metadata that was used: %v, into a new one: %v\n%+v\n%+v", again, err, used, m)
		}
		if !bytes.Equal(given, b) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !errors.Is(err, walstorage.ErrCorrupt) || corrupt.Where != "index" ||
				corrupt.Position < 0 || corrupt.Position > int64(len(b)) {
				t.Fatalf("an error that is not corrupt, or points beyond the %d bytes: %#v", len(b), err)
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
		clear(again) // nothing of it is kept
		if !second.equal(&m) || !m.Clone().equal(&m) {
			t.Fatal("the metadata changes with the bytes that it was decoded from")
		}
	})
}

// checkObject reads any bytes as an object. It holds whatever can be held against the result without knowing the bytes.
func checkObject(t *testing.T, object []byte) {
	given := bytes.Clone(object)
	r, err := NewReader(object)
	if err != nil {
		if errors.Is(err, walstorage.ErrCorrupt) == errors.Is(err, ErrUnsupportedVersion) {
			t.Fatalf("an error of no kind, or of two: %v", err)
		}
		return
	}
	md := r.Metadata()
	if err := md.Validate(); err != nil {
		t.Fatalf("read, but not valid: %v", err)
	}
	position, good := int64(HeaderLength), true
	for v, err := range r.All() {
		if v.Position != position {
			t.Fatalf("a slice at %d, due at %d", v.Position, position)
		}
		position += v.Slice.Length
		if err != nil {
			good = false
			var corrupt *CorruptError
			if errors.As(err, &corrupt) == errors.Is(err, ErrUnsupportedMagic) {
				t.Fatalf("an error of no kind, or of two: %v", err)
			}
			if corrupt != nil && (corrupt.Position < v.Position || corrupt.Position > position) {
				t.Fatalf("the error points at %d, the slice is at %d to %d: %v", corrupt.Position, v.Position, position, err)
			}
			if v.Data != nil {
				t.Fatal("a corrupt slice comes with bytes")
			}
			continue
		}
		if v.LastOffset > v.Slice.LastOffset || v.LastOffset < v.Slice.BaseOffset-1 || int64(len(v.Data)) > v.Slice.Length {
			t.Fatalf("slice %+v gave %d bytes up to offset %d", *v.Slice, len(v.Data), v.LastOffset)
		}
		if int64(len(v.Data)) == v.Slice.Length && v.LastOffset != v.Slice.LastOffset {
			t.Fatalf("slice %+v gave %d bytes up to offset %d", *v.Slice, len(v.Data), v.LastOffset)
		}
	}
	if body := md.BodyLength(); position != HeaderLength+body { // S1
		t.Fatalf("the slices end at %d, the body at %d", position, HeaderLength+body)
	}
	if !bytes.Equal(given, object) {
		t.Fatal("the input was changed (S2)")
	}
	// What was read makes an object again that is taken, says the same, and is as good or as bad.
	again := frameOf(md.ID, object[HeaderLength:position], md.append(nil))
	if err := VerifyObject(md, again); err != nil {
		t.Fatalf("written again it is refused: %v", err)
	}
	if err := readAll(again); (err == nil) != good {
		t.Fatalf("written again its slices are %v", err)
	}
}

// S5: any bytes as a whole object.
func FuzzObject(f *testing.F) {
	f.Fuzz(checkObject)
}

// S5: any index and any body in a good frame, which checksums would otherwise keep from the code behind them.
func FuzzFramedObject(f *testing.F) {
	_, md := smallObject(f)
	f.Fuzz(func(t *testing.T, body, index []byte) {
		checkObject(t, frameOf(md.ID, body, index))
	})
}

// S5: any bytes as a slice whose checksum fits.
func FuzzVerifySlice(f *testing.F) {
	id := segmentID(f, 3, 4711, 0x5a)
	f.Fuzz(func(t *testing.T, data []byte, epoch int32, base, last int64) {
		slice := sliceOf(data, epoch, base, last)
		if slice.problem() != "" {
			return
		}
		prefix, lastOffset, err := VerifySlice(slice, data)
		if err != nil {
			var corrupt *CorruptError
			if errors.As(err, &corrupt) == errors.Is(err, ErrUnsupportedMagic) {
				t.Fatalf("an error of no kind, or of two: %v", err)
			}
			if corrupt != nil && (corrupt.Position < 0 || corrupt.Position > int64(len(data))) || prefix != nil {
				t.Fatalf("it points beyond the %d bytes, or comes with a prefix of %d: %v", len(data), len(prefix), err)
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
		if len(prefix) == 0 {
			return
		}
		// And what it builds of them is the same bytes again, which verify.
		object, _, err := b.Seal(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(object)
		if err != nil {
			t.Fatal(err)
		}
		for v, err := range r.All() {
			if err != nil || !bytes.Equal(v.Data, prefix) || v.LastOffset != lastOffset || v.Slice.BaseOffset != base {
				t.Fatalf("built of %d bytes: %d bytes up to %d, %v", len(prefix), len(v.Data), v.LastOffset, err)
			}
		}
	})
}
