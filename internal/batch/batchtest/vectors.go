package batchtest

import "encoding/hex"

// The functions V1 to V10 return byte vectors that reproduce public bug reports, each a fresh copy.

// V1 is a valid batch of two records from offset 100, leader epoch 5, no producer id; 79 bytes.
func V1() []byte {
	return vector("0000000000000064000000430000000502d9373e390000000000010000018bcfe568000000018bcfe56801ffffffffff" +
		"ffffffffffffffffff0000000210000000026b02610010000202026b026200")
}

// V3 is an abort marker at offset 112, transactional and control, producer id 7; 78 bytes.
func V3() []byte {
	return vector("000000000000007000000042000000050263859caa0030000000000000018bcfe568000000018bcfe568000000000000" +
		"0000070000ffffffff000000012000000008000000000c00000000000700")
}

// V4 is V1 with a record count of -1 and a valid checksum.
func V4() []byte {
	return vector("0000000000000064000000430000000502632258dc0000000000010000018bcfe568000000018bcfe56801ffffffffff" +
		"ffffffffffffffffffffffffff10000000026b02610010000202026b026200")
}

// V5 is V1 with a last offset delta of -3 and a valid checksum.
func V5() []byte {
	return vector("00000000000000640000004300000005026d7568170000fffffffd0000018bcfe568000000018bcfe56801ffffffffff" +
		"ffffffffffffffffff0000000210000000026b02610010000202026b026200")
}

// V6 is V1 with a last offset delta of 0 and yet two records, checksum valid.
func V6() []byte {
	return vector("0000000000000064000000430000000502103acd530000000000000000018bcfe568000000018bcfe56801ffffffffff" +
		"ffffffffffffffffff0000000210000000026b02610010000202026b026200")
}

// V7 is V1 with the gzip bit set and a payload that is no gzip, checksum valid; 69 bytes.
func V7() []byte {
	return vector("0000000000000064000000390000000502cab6929f0001000000010000018bcfe568000000018bcfe56801ffffffffff" +
		"ffffffffffffffffff000000026e6f742d677a6970")
}

// V8 is a compacted batch of offsets 100 to 109 with two records left, at deltas 3 and 5, producer id 7.
func V8() []byte {
	return vector("00000000000000640000004300000005028d7baca30000000000090000018bcfe568000000018bcfe568010000000000" +
		"00000700000000001e0000000210000006026b0261001000020a026b026200")
}

// V9 is two messages of format 1, offsets 7 and 8, back to back; 70 bytes.
func V9() []byte {
	return vector("00000000000000070000001726df07c201000000018bcfe56800ffffffff000000017800000000000000080000001854" +
		"440a5601000000018bcfe56801ffffffff000000027979")
}

// V10 is a valid batch of one record, offset 100, whose stored checksum is 0.
func V10() []byte {
	return vector("00000000000000640000003c0000000502000000000000000000000000018bcfe568000000018bcfe56800ffffffffff" +
		"ffffffffffffffffff000000011400000001081375760600")
}

// Vectors returns all of them by name, for fuzz seeds.
func Vectors() map[string][]byte {
	return map[string][]byte{
		"V1":  V1(),
		"V3":  V3(),
		"V4":  V4(),
		"V5":  V5(),
		"V6":  V6(),
		"V7":  V7(),
		"V8":  V8(),
		"V9":  V9(),
		"V10": V10(),
	}
}

func vector(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err) // the constants above are wrong
	}
	return b
}
