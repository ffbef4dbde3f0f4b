//! WGSL for cooperative matrices: the invocations of a subgroup jointly multiply 16×16 matrices of f16 and accumulate
//! in f32.
//!
//! Few devices support cooperative matrices. Loops can replace the operations, so that kernels written with
//! cooperative matrices can be tested on other devices, in particular on software. In this emulation each
//! invocation holds half a row of each accumulator matrix.

use std::fmt::Write;

use crate::wgsl::accessor::Array;

/// The number of rows, and of columns, of a cooperative matrix.
pub(crate) const SIDE: usize = 16;

/// The number of invocations of a subgroup, which multiply matrices jointly.
pub(crate) const SUBGROUP: usize = 32;

/// An array of vec4s in work-group memory that holds matrices: its name, and the number of vec4s from one row
/// to the next.
pub(crate) struct Rows {
    pub(crate) name: &'static str,
    pub(crate) stride: usize,
}

/// Generates the WGSL statements that multiply data matrices by weight matrices. The fields say where each
/// kind of matrix is stored.
pub(crate) struct Products<'a> {
    /// Whether loops replace the device's matrix operations.
    pub(crate) is_emulated: bool,
    /// Work-group memory of the data matrices.
    pub(crate) data: Rows,
    /// The packed weights in a storage buffer, or in work-group memory.
    pub(crate) weights: &'a Array,
    /// The number of vec4s from one row of a weight matrix to the next.
    pub(crate) weights_stride: usize,
    /// Work-group memory to which accumulator matrices are stored.
    pub(crate) sums: Rows,
    /// Whether the data matrices, and the weight matrices, are stored column by column.
    pub(crate) transposed: [bool; 2],
}

impl Products<'_> {
    /// Returns the definitions of the module-scope functions that the statements call. Empty unless matrices
    /// are emulated.
    pub(crate) fn functions(&self) -> String {
        if !self.is_emulated {
            return String::new();
        }
        if self.transposed != [false; 2] || self.weights_stride != SIDE / 4 {
            return self.any_products() + &self.store_sums();
        }
        // The bounds of the outer loop are known only at run time. A driver would unroll a loop with a constant trip
        // count at each of many calls, and compile for a long time.
        format!(
            "fn add_products(data: u32, weights: u32, sums: array<vec4<f32>, 2>, invocation: u32) -> array<vec4<f32>, 2> {{
    var added = sums;
    let row = data + invocation % {SUBGROUP}u / 2u * {stride}u;
    var at = weights + invocation % 2u * 2u;
    for (var vector = row; vector < row + {vectors}u; vector++) {{
        let x = vec4<f32>({data}[vector]);
        for (var k = 0u; k < 4u; k++) {{
            added[0] += x[k] * vec4<f32>({first});
            added[1] += x[k] * vec4<f32>({second});
            at += {vectors}u;
        }}
    }}
    return added;\n}}\n",
            stride = self.data.stride,
            data = self.data.name,
            vectors = SIDE / 4,
            first = self.weights.word("at"),
            second = self.weights.word("at + 1u"),
        ) + &self.store_sums()
    }

    /// Returns the function that multiplies matrices of any strides, each stored row by row or column by column.
    fn any_products(&self) -> String {
        let line =
            |start: &str, line: &str, stride: usize, of: &str| format!("{start} + {line} * {stride}u + {of} / 4u");
        let of_data = match self.transposed[0] {
            false => line("data", "row", self.data.stride, "k"),
            true => line("data", "k", self.data.stride, "row"),
        };
        let of_weights = match self.transposed[1] {
            false => line("weights", "k", self.weights_stride, "column"),
            true => line("weights", "column", self.weights_stride, "k"),
        };
        format!(
            "fn add_products(data: u32, weights: u32, sums: array<vec4<f32>, 2>, invocation: u32) -> array<vec4<f32>, 2> {{
    var added = sums;
    let row = invocation % {SUBGROUP}u / 2u;
    for (var at = data; at < data + {SIDE}u; at++) {{
        let k = at - data;
        let x = f32({data}[{of_data}][{of_row}]);
        for (var index = 0u; index < 8u; index++) {{
            let column = invocation % 2u * 8u + index;
            added[index / 4u][index % 4u] += x * f32({weights}[{of_column}]);
        }}
    }}
    return added;\n}}\n",
            data = self.data.name,
            of_row = if self.transposed[0] { "row % 4u" } else { "k % 4u" },
            weights = self.weights.word(&of_weights),
            of_column = if self.transposed[1] { "k % 4u" } else { "column % 4u" },
        )
    }

    fn store_sums(&self) -> String {
        format!(
            "fn store_sums(start: u32, stored: array<vec4<f32>, 2>, invocation: u32) {{
    let to = start + invocation % {SUBGROUP}u / 2u * {pitch}u + invocation % 2u * 2u;
    {sums}[to] = stored[0];
    {sums}[to + 1u] = stored[1];\n}}\n",
            pitch = self.sums.stride,
            sums = self.sums.name,
        )
    }

    /// Returns WGSL that declares the accumulator matrix `name`, initialized to 0.
    pub(crate) fn zeros(&self, name: &str) -> String {
        match self.is_emulated {
            true => format!("    var {name}: array<vec4<f32>, 2>;\n"),
            false => format!("    var {name} = coop_mat{SIDE}x{SIDE}<f32, C>();\n"),
        }
    }

    /// Returns WGSL that loads the data matrix that starts at vec4 `at` of its work-group memory, as `name`.
    pub(crate) fn load_data(&self, name: &str, at: &str) -> String {
        let Rows { name: memory, stride } = self.data;
        self.load(name, at, 'A', (&format!("{memory}[{name}_at]"), stride, self.transposed[0]))
    }

    /// Returns WGSL that loads the weight matrix that starts at vec4 `at` of the packed weights, as `name`.
    pub(crate) fn load_weights(&self, name: &str, at: &str) -> String {
        self.load(name, at, 'B', (&self.weights.word(&format!("{name}_at")), self.weights_stride, self.transposed[1]))
    }

    /// Returns WGSL that loads a matrix as `name`. The index is bound to a name first, because naga accepts
    /// only a named index in a pointer expression.
    fn load(&self, name: &str, at: &str, role: char, (element, stride, by_columns): (&str, usize, bool)) -> String {
        let load = if by_columns { "coopLoad" } else { "coopLoadT" };
        let mut text = format!("    let {name}_at = {at};\n");
        let _ = match self.is_emulated {
            true => writeln!(text, "    let {name} = {name}_at;"),
            false => {
                writeln!(text, "    let {name} = {load}<coop_mat{SIDE}x{SIDE}<f16, {role}>>(&{element}, {stride}u);")
            }
        };
        text
    }

    /// Returns WGSL that adds the product of a data matrix and a weight matrix to the accumulator `sum`.
    pub(crate) fn add(&self, sum: &str, data: &str, weights: &str) -> String {
        match self.is_emulated {
            true => format!("    {sum} = add_products({data}, {weights}, {sum}, local.x);\n"),
            false => format!("    {sum} = coopMultiplyAdd({data}, {weights}, {sum});\n"),
        }
    }

    /// Returns WGSL that stores the accumulator `sum` from vec4 `at` of its work-group memory on. The index
    /// is bound to the name `name`.
    pub(crate) fn store(&self, sum: &str, name: &str, at: &str) -> String {
        let Rows { name: memory, stride } = self.sums;
        match self.is_emulated {
            true => format!("    let {name} = {at};\n    store_sums({name}, {sum}, local.x);\n"),
            false => format!("    let {name} = {at};\n    coopStoreT({sum}, &{memory}[{name}], {stride}u);\n"),
        }
    }
}
