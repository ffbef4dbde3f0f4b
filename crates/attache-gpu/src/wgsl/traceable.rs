//! Rewrites shaders for Vulkan's validation layer. Used only while validation is on.

/// Returns a shader's source with each bound array wrapped in a structure. The validation layer (1.3.239)
/// mistakes a write to an array that is bound directly for a read, and therefore does not report missing
/// barriers.
pub(crate) fn traceable(source: &str) -> String {
    let bound = |line: &str| {
        let (head, rest) = line.split_once("> b").filter(|(head, _)| head.contains("var<storage"))?;
        let (number, kind) = rest.strip_suffix(';')?.split_once(": ")?;
        Some(format!("struct Bound{number} {{ array: {kind} }}\n{head}> b{number}: Bound{number};"))
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let accesses = |line: &str| {
        let mut text = String::new();
        let mut rest = line;
        while let Some(bracket) = rest.find('[') {
            let (before, after) = rest.split_at(bracket);
            let start = before.len() - before.bytes().rev().take_while(|byte| is_name(byte)).count();
            let number = before[start..].strip_prefix('b').unwrap_or_default();
            let is_bound = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            text += before;
            text += if is_bound { ".array[" } else { "[" };
            rest = &after[1..];
        }
        text + rest
    };
    source.lines().map(|line| bound(line).unwrap_or_else(|| accesses(line)) + "\n").collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn bound_arrays_become_members() {
        let source = "@group(0) @binding(1) var<storage, read_write> b1: array<vec4<f32>>;
var<private> b2x: array<f32, 4>;
fn main() { b1[b1[0] + u32(b2x[1])] = read_b1(2); }
";
        let expected = "struct Bound1 { array: array<vec4<f32>> }
@group(0) @binding(1) var<storage, read_write> b1: Bound1;
var<private> b2x: array<f32, 4>;
fn main() { b1.array[b1.array[0] + u32(b2x[1])] = read_b1(2); }
";
        assert_eq!(super::traceable(source), expected);
    }
}
