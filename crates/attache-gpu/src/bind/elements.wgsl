// Converts elements between the type of a tensor and 32-bit floats or integers.

struct Parameters {
    elements: u32,
    // The type of the tensor: 0 float16, 1 int64, 2 int32, 3 int16, 4 int8, 5 uint8, 6 bool, 7 uint16.
    code: u32,
    // Whether the device stores floats; otherwise integers.
    is_float: u32,
    // 0 from the type of the tensor, 1 to it.
    direction: u32,
}

struct Words { words: array<u32> }

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> source: Words;
@group(0) @binding(2) var<storage, read_write> destination: Words;

// Returns an integer as the device stores it.
fn stored(integer: i32) -> u32 {
    return select(bitcast<u32>(integer), bitcast<u32>(f32(integer)), parameters.is_float == 1u);
}

// Returns a word whose highest `bits` bits are element `index` of the source.
fn highest(index: u32, bits: u32) -> u32 {
    let each = 32u / bits;
    return source.words[index / each] << (32u - bits - index % each * bits);
}

// Returns an element of 64 bits as the device stores it; integers are clamped to 32 bits.
fn wide(index: u32) -> u32 {
    let low = source.words[2u * index];
    let high = bitcast<i32>(source.words[2u * index + 1u]);
    if high == bitcast<i32>(low) >> 31u {
        return stored(bitcast<i32>(low));
    }
    let clamped = select(0x80000000u, 0x7fffffffu, high >= 0);
    return select(clamped, bitcast<u32>(f32(high) * 4294967296.0 + f32(low)), parameters.is_float == 1u);
}

// Returns element `index` of the source as the device stores it.
fn taken(index: u32) -> u32 {
    switch parameters.code {
        case 0u: {
            return bitcast<u32>(unpack2x16float(source.words[index / 2u])[index % 2u]);
        }
        case 1u: {
            return wide(index);
        }
        case 2u: {
            return stored(bitcast<i32>(source.words[index]));
        }
        case 3u: {
            return stored(bitcast<i32>(highest(index, 16u)) >> 16u);
        }
        case 4u: {
            return stored(bitcast<i32>(highest(index, 8u)) >> 24u);
        }
        case 5u: {
            return stored(i32(highest(index, 8u) >> 24u));
        }
        case 7u: {
            return stored(i32(highest(index, 16u) >> 16u));
        }
        default: {
            return stored(select(0, 1, highest(index, 8u) >> 24u != 0u));
        }
    }
}

// Returns element `index` of the source, which the device stored, as an integer; 0 behind the last one.
fn integer(index: u32) -> i32 {
    if index >= parameters.elements {
        return 0;
    }
    let word = source.words[index];
    return select(bitcast<i32>(word), i32(bitcast<f32>(word)), parameters.is_float == 1u);
}

// Returns element `index` of the source, which the device stored, as a float; 0 behind the last one.
fn real(index: u32) -> f32 {
    if index >= parameters.elements {
        return 0.0;
    }
    let word = source.words[index];
    return select(f32(bitcast<i32>(word)), bitcast<f32>(word), parameters.is_float == 1u);
}

// Returns a word of the elements of the tensor from `first` on, each `bits` wide.
fn packed(first: u32, bits: u32) -> u32 {
    let mask = 0xffffffffu >> (32u - bits);
    var word = 0u;
    for (var at = 0u; at < 32u / bits; at++) {
        let element = integer(first + at);
        let byte = select(bitcast<u32>(element), select(0u, 1u, element != 0), parameters.code == 6u);
        word |= (byte & mask) << (at * bits);
    }
    return word;
}

fn store(index: u32) {
    switch parameters.code {
        case 0u: {
            destination.words[index] = pack2x16float(vec2(real(2u * index), real(2u * index + 1u)));
        }
        case 1u: {
            let element = integer(index);
            destination.words[2u * index] = bitcast<u32>(element);
            destination.words[2u * index + 1u] = bitcast<u32>(element >> 31u);
        }
        case 2u: {
            destination.words[index] = bitcast<u32>(integer(index));
        }
        case 3u, 7u: {
            destination.words[index] = packed(2u * index, 16u);
        }
        default: {
            destination.words[index] = packed(4u * index, 8u);
        }
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let index = id.y * groups.x * 64u + id.x;
    let words = arrayLength(&destination.words);
    if parameters.direction == 0u {
        if index < parameters.elements {
            destination.words[index] = taken(index);
        }
    } else if parameters.code == 1u {
        if index < parameters.elements {
            store(index);
        }
    } else if index < words {
        store(index);
    }
}
