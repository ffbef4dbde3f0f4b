// Makes the pixels of a texture from an output: values of channels, scores of classes, or classes.

struct Parameters {
    mean: vec4<f32>,
    deviation: vec4<f32>,
    // Left, top, width and height of the rectangle of the texture.
    region: vec4<u32>,
    width: u32,
    height: u32,
    channels: u32,
    // The number of colours.
    colours: u32,
    scale: f32,
    zero_point: f32,
    // How the texture stores values: 0 bytes, 1 floats, 2 sRGB bytes.
    encoding: u32,
    is_bgr: u32,
    // How the device stores elements: 0 floats, 1 integers, 2 signed bytes, 3 unsigned bytes.
    stored: u32,
    // What elements are: 0 values of channels, 1 scores of classes, 2 classes.
    meaning: u32,
    unused: vec2<u32>,
}

struct Words { words: array<u32> }

@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> elements: Words;
// Red, green, blue and alpha, from the lowest byte on.
@group(0) @binding(2) var<storage, read> colours: Words;

// Returns an element as a float.
fn element(index: u32) -> f32 {
    switch parameters.stored {
        case 0u: {
            return bitcast<f32>(elements.words[index]);
        }
        case 1u: {
            return f32(bitcast<i32>(elements.words[index]));
        }
        case 2u: {
            return f32(bitcast<i32>(elements.words[index / 4u] << (24u - index % 4u * 8u)) >> 24u);
        }
        default: {
            return f32(elements.words[index / 4u] >> (index % 4u * 8u) & 0xffu);
        }
    }
}

// Returns the elements of a pixel of the output.
fn texel(x: u32, y: u32) -> vec4<f32> {
    let first = (y * parameters.width + x) * parameters.channels;
    var values = vec4(0.0);
    for (var channel = 0u; channel < parameters.channels; channel++) {
        values[channel] = element(first + channel);
    }
    return values;
}

// The two positions next to a target position along an axis, and the weight of the second one.
struct Neighbours {
    low: u32,
    high: u32,
    weight: f32,
}

// Returns the neighbours where an axis is resized.
fn neighbours(position: u32, before: u32, after: u32) -> Neighbours {
    let last = f32(before - 1u);
    let along = clamp((f32(position) + 0.5) * (f32(before) / f32(after)) - 0.5, 0.0, last);
    let low = floor(along);
    return Neighbours(u32(low), u32(min(low + 1.0, last)), along - low);
}

// Returns the values of a pixel, 0 to 255: red, green, blue and alpha.
fn picture(x: u32, y: u32) -> vec4<f32> {
    let across = neighbours(x, parameters.width, parameters.region.z);
    let down = neighbours(y, parameters.height, parameters.region.w);
    let left_top = texel(across.low, down.low);
    let left_bottom = texel(across.low, down.high);
    let upper = left_top + (texel(across.high, down.low) - left_top) * across.weight;
    let lower = left_bottom + (texel(across.high, down.high) - left_bottom) * across.weight;
    let real = (upper + (lower - upper) * down.weight - parameters.zero_point) * parameters.scale;
    var values = real * parameters.deviation + parameters.mean;
    switch parameters.channels {
        case 1u: {
            return vec4(values.rrr, 255.0);
        }
        case 2u: {
            values = vec4(values.rg, 0.0, 255.0);
        }
        case 3u: {
            values.a = 255.0;
        }
        default: {}
    }
    return select(values, values.bgra, parameters.is_bgr == 1u && parameters.channels > 2u);
}

// Whether a value is no NaN.
fn is_number(value: f32) -> bool {
    return (bitcast<u32>(value) & 0x7fffffffu) <= 0x7f800000u;
}

// Returns the class of a pixel of the output.
fn class_of(x: u32, y: u32) -> u32 {
    let first = (y * parameters.width + x) * parameters.channels;
    if parameters.meaning == 2u {
        return u32(max(element(first), 0.0));
    }
    var best = 0u;
    var highest = element(first);
    for (var channel = 1u; channel < parameters.channels; channel++) {
        let score = element(first + channel);
        if is_number(score) && (score > highest || !is_number(highest)) {
            best = channel;
            highest = score;
        }
    }
    return best;
}

// Returns the colour of the class at a pixel, 0 to 255.
fn colour(x: u32, y: u32) -> vec4<f32> {
    let across = min((2u * x + 1u) * parameters.width / (2u * parameters.region.z), parameters.width - 1u);
    let down = min((2u * y + 1u) * parameters.height / (2u * parameters.region.w), parameters.height - 1u);
    let word = colours.words[class_of(across, down) % parameters.colours];
    return vec4<f32>((vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu));
}

// Returns the linear value of a stored one.
fn linear(value: vec3<f32>) -> vec3<f32> {
    let curved = pow((max(value, vec3(0.0)) + 0.055) / 1.055, vec3(2.4));
    return select(curved, value / 12.92, value <= vec3(0.04045));
}

// Returns a pixel of the region as it is written.
fn written(x: u32, y: u32) -> vec4<f32> {
    var values: vec4<f32>;
    if parameters.meaning == 0u {
        values = picture(x, y);
    } else {
        values = colour(x, y);
    }
    if parameters.encoding == 1u {
        return values / 255.0;
    }
    values = floor(clamp(values, vec4(0.0), vec4(255.0)) + 0.5) / 255.0;
    if parameters.encoding == 2u {
        return vec4(linear(values.rgb), values.a);
    }
    return values;
}
