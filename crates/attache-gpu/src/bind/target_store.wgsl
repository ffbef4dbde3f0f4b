@group(0) @binding(3) var pixels: texture_storage_2d<FORMAT, write>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let index = id.y * groups.x * 64u + id.x;
    if index < parameters.region.z * parameters.region.w {
        let place = vec2(index % parameters.region.z, index / parameters.region.z);
        textureStore(pixels, parameters.region.xy + place, written(place.x, place.y));
    }
}
