//! The WGSL of matrices that the invocations of a subgroup multiply together: 16×16 numbers of binary16 each, with sums in
//! binary32.
//!
//! Few devices have them. So that kernels which are written with them can be checked on others, on software above all, loops can
//! take the place of the operations: an invocation then has half a row of each matrix of sums.

use std::fmt::Write;

use crate::wgsl::accessor::Array;

/// Rows and columns of a matrix.
pub(crate) const SIDE: usize = 16;

/// Invocations that multiply matrices together.
pub(crate) const SUBGROUP: usize = 32;

/// Memory of the work group in which matrices lie: its name, and vectors of four numbers from row to row.
pub(crate) struct Rows {
    pub(crate) name: &'static str,
    pub(crate) stride: usize,
}

/// The statements of a shader that multiplies matrices of data by such of weights, where each kind has its place.
pub(crate) struct Products<'a> {
    /// Whether loops multiply, not the device's own operations.
    pub(crate) is_emulated: bool,
    pub(crate) data: Rows,
    /// Its matrices lie one after the other, row by row.
    pub(crate) weights: &'a Array,
    pub(crate) sums: Rows,
}

impl Products<'_> {
    /// What the statements need at module scope.
    pub(crate) fn functions(&self) -> String {
        if !self.is_emulated {
            return String::new();
        }
        // The outer loop begins where only the run knows: a driver would write out one whose turns it can count, for each of
        // many products, and compile for long.
        format!(
            "fn add_products(data: u32, weights: u32, sums: array<vec4<f32>, 2>, lane: u32) -> array<vec4<f32>, 2> {{
    var added = sums;
    let row = data + lane % {SUBGROUP}u / 2u * {stride}u;
    var at = weights + lane % 2u * 2u;
    for (var quad = row; quad < row + {quads}u; quad++) {{
        let x = vec4<f32>({data}[quad]);
        for (var k = 0u; k < 4u; k++) {{
            added[0] += x[k] * vec4<f32>({first});
            added[1] += x[k] * vec4<f32>({second});
            at += {quads}u;
        }}
    }}
    return added;\n}}
fn store_sums(place: u32, stored: array<vec4<f32>, 2>, lane: u32) {{
    let to = place + lane % {SUBGROUP}u / 2u * {pitch}u + lane % 2u * 2u;
    {sums}[to] = stored[0];
    {sums}[to + 1u] = stored[1];\n}}\n",
            stride = self.data.stride,
            data = self.data.name,
            quads = SIDE / 4,
            first = self.weights.word("at"),
            second = self.weights.word("at + 1u"),
            pitch = self.sums.stride,
            sums = self.sums.name,
        )
    }

    /// Declares a matrix of sums, all 0.
    pub(crate) fn zeros(&self, name: &str) -> String {
        match self.is_emulated {
            true => format!("    var {name}: array<vec4<f32>, 2>;\n"),
            false => format!("    var {name} = coop_mat{SIDE}x{SIDE}<f32, C>();\n"),
        }
    }

    /// Loads a matrix of data from the vector at `at` on.
    pub(crate) fn load_data(&self, name: &str, at: &str) -> String {
        let Rows { name: memory, stride } = self.data;
        self.load(name, at, 'A', (&format!("{memory}[{name}_at]"), stride))
    }

    /// Loads a matrix of weights from the vector at `at` on.
    pub(crate) fn load_weights(&self, name: &str, at: &str) -> String {
        self.load(name, at, 'B', (&self.weights.word(&format!("{name}_at")), SIDE / 4))
    }

    /// The place has a name, since naga takes nothing else for a pointer's index.
    fn load(&self, name: &str, at: &str, role: char, (place, stride): (&str, usize)) -> String {
        let mut text = format!("    let {name}_at = {at};\n");
        let _ = match self.is_emulated {
            true => writeln!(text, "    let {name} = {name}_at;"),
            false => {
                writeln!(text, "    let {name} = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, {role}>>(&{place}, {stride}u);")
            }
        };
        text
    }

    /// Adds the product of a matrix of data and one of weights to one of sums.
    pub(crate) fn add(&self, sum: &str, data: &str, weights: &str) -> String {
        match self.is_emulated {
            true => format!("    {sum} = add_products({data}, {weights}, {sum}, local.x);\n"),
            false => format!("    {sum} = coopMultiplyAdd({data}, {weights}, {sum});\n"),
        }
    }

    /// Stores a matrix of sums from the vector at `at` on, which gets the name `name`.
    pub(crate) fn store(&self, sum: &str, name: &str, at: &str) -> String {
        let Rows { name: memory, stride } = self.sums;
        match self.is_emulated {
            true => format!("    let {name} = {at};\n    store_sums({name}, {sum}, local.x);\n"),
            false => format!("    let {name} = {at};\n    coopStoreT({sum}, &{memory}[{name}], {stride}u);\n"),
        }
    }
}
