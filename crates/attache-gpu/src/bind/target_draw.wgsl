// Returns a corner of a triangle that covers the whole viewport.
@vertex
fn corner(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4(f32(index & 1u) * 4.0 - 1.0, f32(index >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

@fragment
fn main(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    let place = vec2<u32>(position.xy) - parameters.region.xy;
    return written(place.x, place.y);
}
