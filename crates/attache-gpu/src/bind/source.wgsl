// Reads an input from a texture: crops, resizes, normalizes and quantizes.

struct Parameters {
    mean: vec4<f32>,
    deviation: vec4<f32>,
    scale: f32,
    zero_point: f32,
    // The least and the largest element.
    least: f32,
    most: f32,
    width: u32,
    height: u32,
    channels: u32,
    // The number of pixels of the input, of the whole batch.
    pixels: u32,
    // How the texture stores values: 0 bytes, 1 floats, 2 sRGB bytes.
    encoding: u32,
    is_bgr: u32,
    // How the device stores elements: 0 floats, 1 integers, 2 signed bytes, 3 unsigned bytes.
    stored: u32,
    // Whether elements are integers, which the device may store as floats.
    is_rounded: u32,
}

struct Words { words: array<u32> }

@group(0) @binding(0) var<uniform> parameters: Parameters;
// Left, top, width and height.
@group(0) @binding(1) var<storage, read> crop: vec4<f32>;
@group(0) @binding(2) var picture: texture_2d<f32>;
@group(0) @binding(3) var<storage, read_write> elements: Words;

// Returns the stored value of a linear one.
fn srgb(linear: vec3<f32>) -> vec3<f32> {
    let curved = 1.055 * pow(max(linear, vec3(0.0)), vec3(1.0 / 2.4)) - 0.055;
    return select(curved, 12.92 * linear, linear <= vec3(0.0031308));
}

// Returns the values of a pixel of the texture, 0 to 255.
fn texel(x: i32, y: i32) -> vec4<f32> {
    let read = textureLoad(picture, vec2(x, y), 0);
    switch parameters.encoding {
        case 0u: {
            return round(255.0 * read);
        }
        case 1u: {
            return 255.0 * read;
        }
        default: {
            return round(255.0 * vec4(srgb(read.rgb), read.a));
        }
    }
}

// Returns a number as it is; 0 in place of a NaN.
fn number(value: f32) -> f32 {
    return select(value, 0.0, (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u);
}

// Returns a bound of the rectangle. What is beyond every texture is limited, so that arithmetic stays finite.
fn bound(value: f32) -> f32 {
    return clamp(number(value), -16777216.0, 16777216.0);
}

// The two positions next to a target position along an axis, and the weight of the second one.
struct Neighbours {
    low: i32,
    high: i32,
    weight: f32,
}

// Returns the neighbours where `length` positions from `start` on become `count`, of an axis with `extent` positions.
// Less than one position is sampled at its centre.
fn neighbours(position: u32, count: u32, start: f32, length: f32, extent: u32) -> Neighbours {
    let inner = (f32(position) + 0.5) * (length / f32(count)) - 0.5;
    let centre = 0.5 * (length - 1.0);
    let along = start + clamp(inner, min(centre, 0.0), max(length - 1.0, centre));
    let last = f32(extent - 1u);
    let source = clamp(along, 0.0, last);
    let low = floor(source);
    return Neighbours(i32(low), i32(min(low + 1.0, last)), source - low);
}

// Returns the values of a pixel of the input, 0 to 255: red, green, blue and alpha.
fn pixel(index: u32) -> vec4<f32> {
    let inside = index % (parameters.width * parameters.height);
    let extents = textureDimensions(picture);
    let across = neighbours(inside % parameters.width, parameters.width, bound(crop.x), bound(crop.z), extents.x);
    let down = neighbours(inside / parameters.width, parameters.height, bound(crop.y), bound(crop.w), extents.y);
    let left_top = texel(across.low, down.low);
    let left_bottom = texel(across.low, down.high);
    let upper = left_top + (texel(across.high, down.low) - left_top) * across.weight;
    let lower = left_bottom + (texel(across.high, down.high) - left_bottom) * across.weight;
    return upper + (lower - upper) * down.weight;
}

// Returns the elements of a pixel of the input, before they are stored.
fn normalized(index: u32) -> vec4<f32> {
    var values = pixel(index);
    if parameters.channels == 1u {
        values = vec4(0.299 * values.r + 0.587 * values.g + 0.114 * values.b);
    } else if parameters.is_bgr == 1u && parameters.channels > 2u {
        values = values.bgra;
    }
    let real = (values - parameters.mean) / parameters.deviation;
    if parameters.is_rounded == 0u {
        return real;
    }
    // Halves are rounded away from zero.
    let steps = real / parameters.scale;
    let rounded = sign(steps) * floor(abs(steps) + 0.5) + parameters.zero_point;
    let whole = vec4(number(rounded.r), number(rounded.g), number(rounded.b), number(rounded.a));
    return clamp(whole, vec4(parameters.least), vec4(parameters.most));
}

fn store_words(index: u32) {
    let values = normalized(index);
    for (var channel = 0u; channel < parameters.channels; channel++) {
        let value = values[channel];
        let word = select(bitcast<u32>(i32(value)), bitcast<u32>(value), parameters.stored == 0u);
        elements.words[index * parameters.channels + channel] = word;
    }
}

// Stores four pixels from `first` on as bytes, which are as many words as there are channels.
fn store_bytes(first: u32) {
    var words = vec4(0u);
    for (var at = 0u; at < 4u && first + at < parameters.pixels; at++) {
        let values = normalized(first + at);
        for (var channel = 0u; channel < parameters.channels; channel++) {
            let byte = at * parameters.channels + channel;
            words[byte / 4u] |= (bitcast<u32>(i32(values[channel])) & 0xffu) << (byte % 4u * 8u);
        }
    }
    let start = first / 4u * parameters.channels;
    for (var word = 0u; word < parameters.channels; word++) {
        if start + word < arrayLength(&elements.words) {
            elements.words[start + word] = words[word];
        }
    }
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let index = id.y * groups.x * 64u + id.x;
    if parameters.stored < 2u {
        if index < parameters.pixels {
            store_words(index);
        }
    } else if index < (parameters.pixels + 3u) / 4u {
        store_bytes(4u * index);
    }
}
