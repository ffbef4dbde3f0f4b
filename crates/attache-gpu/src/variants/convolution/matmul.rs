//! Variant `matmul`: batched matrix products of floats or integers, one invocation per element of the result.

use attache_gpu_ir::{Primitive, Scalar};

use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{store, store_anywhere};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "matmul",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::MatMul { .. }),
    priority: |_, _| 2,
    write,
};

/// A matrix product for each index of the outer axes.
pub(super) struct Product {
    /// Extents of the outer axes.
    pub(super) outer: Vec<usize>,
    /// M, K and N.
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    /// Strides of the output along the outer axes, the rows and the columns, in elements.
    pub(super) output: Vec<usize>,
    /// Strides of the two inputs along the same axes; for the first along outer axes, rows and depth, for the second
    /// along outer axes, depth and columns.
    pub(super) inputs: [Vec<usize>; 2],
}

impl Product {
    pub(super) fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let Primitive::MatMul { transposed, order } = &kernel.primitive else { unreachable!("applies") };
        let output = context.program.shape(kernel.outputs[0]);
        let mut natural = output.to_vec();
        let mut output_strides = attache_base::strides(output);
        let stored = output_strides.clone();
        for (stored_axis, axis) in order.iter().enumerate() {
            (natural[*axis], output_strides[*axis]) = (output[stored_axis], stored[stored_axis]);
        }
        let rank = natural.len();
        let outer = natural[..rank - 2].to_vec();
        let inputs = [0, 1].map(|input| {
            let shape = context.program.shape(kernel.inputs[input]);
            let (own, matrix) = shape.split_at(shape.rank() - 2);
            let elements: usize = matrix.iter().product();
            let mut strides: Vec<usize> =
                attache_base::broadcast_strides(own, &outer).iter().map(|stride| stride * elements).collect();
            strides.extend(if transposed[input] { [1, matrix[1]] } else { [matrix[1], 1] });
            strides
        });
        let left = context.program.shape(kernel.inputs[0]);
        let depth = left[left.rank() - if transposed[0] { 2 } else { 1 }];
        Self { outer, rows: natural[rank - 2], depth, columns: natural[rank - 1], output: output_strides, inputs }
    }

    /// Returns WGSL that subtracts from the number `rest` of a product the coordinates along outer axes, and adds the
    /// offsets of its matrices to `from_left`, `from_right` and `to`.
    pub(super) fn offsets(&self, writer: &mut Writer<'_>) -> String {
        let mut text = "    var from_left = 0u;\n    var from_right = 0u;\n    var to = 0u;\n".to_owned();
        for (axis, extent) in self.outer.iter().enumerate().rev().filter(|(_, extent)| **extent != 1) {
            let extent = writer.param(*extent);
            let [left, right] = [0, 1].map(|input| writer.param(self.inputs[input][axis]));
            let to = writer.param(self.output[axis]);
            text += &format!(
                "    from_left += rest % {extent} * {left};
    from_right += rest % {extent} * {right};
    to += rest % {extent} * {to};
    rest = rest / {extent};\n"
            );
        }
        text
    }
}

/// Returns the product with strides in the values from which views are read, and the first element of each input;
/// `None` if a view has its elements at uneven distances.
pub(super) fn in_place(context: &Context<'_>, kernel: &Kernel) -> Option<(Product, [usize; 2])> {
    let Primitive::MatMul { transposed, .. } = &kernel.primitive else { return None };
    let (mut product, mut offsets) = (Product::of(context, kernel), [0; 2]);
    for input in 0..2 {
        let id = kernel.inputs[input];
        let Some(view) = context.views.iter().find(|view| view.value == id) else { continue };
        let (offset, strides) = view.strides(context.program.shape(view.source))?;
        let shape = context.program.shape(id);
        let (outer, matrix) = strides.split_at(shape.rank() - 2);
        let missing = product.outer.len() - outer.len();
        let own = outer.iter().zip(shape.iter()).map(|(stride, extent)| if *extent == 1 { 0 } else { *stride });
        let matrix = if transposed[input] { [matrix[1], matrix[0]] } else { [matrix[0], matrix[1]] };
        product.inputs[input] = std::iter::repeat_n(0, missing).chain(own).chain(matrix).collect();
        offsets[input] = offset;
    }
    Some((product, offsets))
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let product = Product::of(context, kernel);
    let rank = product.output.len();
    let mut writer = Writer::new(VARIANT.name, context);
    let [left, right] = [0, 1].map(|input| writer.read(kernel.inputs[input], 1));
    let are_integers = context.program.value(kernel.inputs[0]).scalar == Scalar::I32;
    let is_ordered = matches!(&kernel.primitive, Primitive::MatMul { order, .. } if !order.is_empty());
    match is_ordered {
        true => store_anywhere(&mut writer, context, kernel, 1),
        false => store(&mut writer, context, kernel, 1),
    }
    let start = if are_integers { "0" } else { "0.0" };
    let [rows, depth, columns] = [product.rows, product.depth, product.columns].map(|extent| writer.param(extent));
    let offsets = product.offsets(&mut writer);
    let [left_row, left_k, right_k, right_column, to_row, to_column] = [
        product.inputs[0][rank - 2],
        product.inputs[0][rank - 1],
        product.inputs[1][rank - 2],
        product.inputs[1][rank - 1],
        product.output[rank - 2],
        product.output[rank - 1],
    ]
    .map(|stride| writer.param(stride));
    let at_left = format!("from_left + row * {left_row} + k * {left_k}");
    let at_right = format!("from_right + k * {right_k} + column * {right_column}");
    let step = if are_integers {
        format!("sum + {} * {}", left.integers(&at_left), right.integers(&at_right))
    } else {
        format!("fma({}, {}, sum)", left.floats(&at_left), right.floats(&at_right))
    };
    let at = if is_ordered { format!("to + row * {to_row} + column * {to_column}") } else { "g".to_owned() };
    let body = format!(
        "    let column = g % {columns};
    let row = g / {columns} % {rows};
    var rest = g / {columns} / {rows};
{offsets}    var sum = {start};
    for (var k = 0u; k < {depth}; k++) {{
        sum = {step};
    }}
    store({at}, sum);\n"
    );
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements(), &body)]
}
