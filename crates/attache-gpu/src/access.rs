//! How a kernel stores its result: the epilogue with its broadcast operands, and the output.

use std::fmt::Write;

use attache_base::{Shape, broadcast_strides};
use attache_gpu_ir::{Primitive, Program, Reduction, Scalar, Value, ValueId, Whole};

use crate::array::Array;
use crate::context::Context;
use crate::fuse::{Epilogue, Kernel};
use crate::shader::Writer;
use crate::text::{expression, functions, integer, vector};
use crate::whole::whole_value;

/// An axis of a broadcast: how far the output goes along it, and how far an operand with each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    extent: usize,
    stride: usize,
}

/// The axes of `from` broadcast to `to`, innermost first, neighbours merged wherever one loop can do for two.
fn axes(from: &Shape, to: &Shape) -> Vec<Axis> {
    let strides = broadcast_strides(from, to);
    let mut axes: Vec<Axis> = Vec::new();
    for (&extent, &stride) in to.iter().zip(&strides).rev().filter(|(extent, _)| **extent != 1) {
        match axes.last_mut() {
            Some(last) if stride == last.stride * last.extent => last.extent *= extent,
            _ => axes.push(Axis { extent, stride }),
        }
    }
    axes
}

/// WGSL's type for one element of what a kernel's primitive hands to `store`.
pub(crate) fn carried(program: &Program, kernel: &Kernel) -> &'static str {
    use Primitive::{Concatenate, Contract, Gather, IndexMap, Multiply};
    let keeps =
        matches!(kernel.primitive, IndexMap(_) | Concatenate { .. } | Gather(_) | Contract(_) | Multiply { .. });
    let sums = matches!(kernel.primitive, Primitive::Reduce { reduction: Reduction::Sum, .. });
    let integers = (keeps || sums) && program.value(kernel.inputs[0]).scalar == Scalar::I32;
    if integers || matches!(kernel.primitive, Primitive::ArgReduce { .. }) { "i32" } else { "f32" }
}

/// How many neighbouring elements one invocation can compute: 4 where the output and every operand broadcast to it
/// allow whole vectors, else 1.
pub(crate) fn lanes(program: &Program, kernel: &Kernel) -> usize {
    let output = program.value(kernel.outputs[0]);
    let is_map = matches!(kernel.primitive, Primitive::Map { .. } | Primitive::WholeMap { .. });
    let broadcast = if is_map { &kernel.inputs } else { &kernel.operands };
    let whole = |from: &Shape| axes(from, &output.shape).first().is_none_or(|axis| axis.extent.is_multiple_of(4));
    let fits = output.shape.elements().is_multiple_of(4) && broadcast.iter().all(|id| whole(program.shape(*id)));
    if fits { 4 } else { 1 }
}

/// Adds a function `name(g)` that reads the operand for the output's unit `g` of `lanes` elements, as reals (`f32`) or, of
/// integers, as such (`i32`).
pub(crate) fn operand(
    writer: &mut Writer<'_>,
    name: &str,
    (id, value): (ValueId, &Value),
    to: &Shape,
    (element, lanes): (&str, usize),
) {
    let mut axes = axes(&value.shape, to);
    let spread = axes.first().is_none_or(|axis| axis.stride == 0);
    let width = if spread { 1 } else { lanes };
    let array = writer.read(id, width);
    let real = vector(element, lanes);
    if let Some(first) = axes.first_mut() {
        first.extent /= lanes;
    }
    // Strides of outer axes are counted in the array's own units; the innermost moves by one.
    let unit = |axis: usize, stride: usize| if axis == 0 { stride } else { stride / width };
    let mut at = String::new();
    let mut text = format!("fn {name}(g: u32) -> {real} {{\n    var rest = g;\n    var at = 0u;\n");
    let last = axes.len().saturating_sub(1);
    for (index, axis) in axes.iter().enumerate() {
        let stride = unit(index, axis.stride);
        let coordinate =
            if index == last { "rest".to_owned() } else { format!("(rest % {})", writer.param(axis.extent)) };
        match stride {
            0 => {}
            1 => {
                let _ = writeln!(at, "    at += {coordinate};");
            }
            _ => {
                let _ = writeln!(at, "    at += {coordinate} * {};", writer.param(stride));
            }
        }
        if index != last {
            let _ = writeln!(at, "    rest = rest / {};", writer.param(axis.extent));
        }
    }
    let read = if element == "i32" { array.integers("at") } else { array.reals("at") };
    let whole = if width == lanes { read } else { format!("{real}({read})") };
    let _ = write!(text, "{at}    return {whole};\n}}\n");
    writer.function(&text);
}

/// Reals as elements of this scalar: integers through a function that is added to the text.
fn converted(scalar: Scalar, lanes: usize, reals: String, text: &mut String) -> String {
    match scalar {
        Scalar::F32 => reals,
        Scalar::I32 => {
            *text += &integer(lanes);
            format!("integer{lanes}({reals})")
        }
    }
}

/// Adds the function `store(g, value)`, which applies the epilogue to the result's unit `g` of `lanes` elements and
/// writes it. The output is the kernel's first; one lane at a time, unit `g` of [`Writer::linear`] writes element `g` and
/// no other.
pub(crate) fn store(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, lanes: usize) {
    let output = kernel.outputs[0];
    let array = if lanes == 1 { writer.write_own(output) } else { writer.write(output, lanes) };
    store_into(writer, context, kernel, lanes, &array);
}

/// As [`store`], where whoever writes element `g` may have any number.
pub(crate) fn store_anywhere(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, lanes: usize) {
    let array = writer.write(kernel.outputs[0], lanes);
    store_into(writer, context, kernel, lanes, &array);
}

fn store_into(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, lanes: usize, array: &Array) {
    let program = context.program;
    let output = program.value(kernel.outputs[0]);
    let carried = carried(program, kernel);
    let operands = kernel.operands.len();
    for (index, id) in kernel.operands.iter().enumerate() {
        let element = kernel.epilogue.element();
        operand(writer, &format!("operand{}", index + 1), (*id, program.value(*id)), &output.shape, (element, lanes));
    }
    let (value, mut text) = match &kernel.epilogue {
        epilogue if epilogue.is_identity() => ("value".to_owned(), String::new()),
        Epilogue::Real(expression) => (self::expression(expression, lanes), functions(expression, lanes)),
        Epilogue::Whole(expression) => whole_lanes(writer, expression, operands + 1, lanes),
    };
    let is_whole = carried == "i32" && (kernel.epilogue.is_identity() || matches!(kernel.epilogue, Epilogue::Whole(_)));
    let value = if is_whole { value } else { converted(output.scalar, lanes, value, &mut text) };
    let _ = writeln!(text, "fn store(g: u32, value: {}) {{", vector(carried, lanes));
    if !kernel.epilogue.is_identity() {
        let _ = writeln!(text, "    let x0 = value;");
        for index in 1..=operands {
            let _ = writeln!(text, "    let x{index} = operand{index}(g);");
        }
    }
    let _ = write!(text, "    {}\n}}\n", array.write("g", &value));
    writer.function(&text);
}

/// WGSL of an expression of integers over so many variables of `lanes` elements, and the functions that it calls.
fn whole_lanes(writer: &mut Writer<'_>, expression: &Whole, variables: usize, lanes: usize) -> (String, String) {
    let functions = whole_value(expression, variables, &mut |number| writer.signed_param(number.into()));
    let of = |part: &str| {
        let variables: Vec<String> = (0..variables).map(|index| format!("x{index}{part}")).collect();
        format!("whole_value({})", variables.join(", "))
    };
    let value = match lanes {
        1 => of(""),
        _ => format!("vec4<i32>({})", [".x", ".y", ".z", ".w"].map(of).join(", ")),
    };
    (value, functions)
}

/// Adds the function `store(g)` for a map of reals or integers: its inputs are the operands.
pub(crate) fn store_map(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, lanes: usize) {
    let program = context.program;
    let (id, inputs) = (kernel.outputs[0], kernel.inputs.len());
    let output = program.value(id);
    let is_whole = matches!(kernel.primitive, Primitive::WholeMap { .. });
    let element = if is_whole { "i32" } else { "f32" };
    for (index, id) in kernel.inputs.iter().enumerate() {
        operand(writer, &format!("operand{index}"), (*id, program.value(*id)), &output.shape, (element, lanes));
    }
    let array = if lanes == 1 { writer.write_own(id) } else { writer.write(id, lanes) };
    let (value, mut text) = match &kernel.primitive {
        Primitive::Map { expression, .. } => {
            let mut text = functions(expression, lanes);
            (converted(output.scalar, lanes, self::expression(expression, lanes), &mut text), text)
        }
        Primitive::WholeMap { expression, .. } => whole_lanes(writer, expression, inputs, lanes),
        other => unreachable!("{} is no map", other.name()),
    };
    text += "fn store(g: u32) {\n";
    for index in 0..inputs {
        let _ = writeln!(text, "    let x{index} = operand{index}(g);");
    }
    let _ = write!(text, "    {}\n}}\n", array.write("g", &value));
    writer.function(&text);
}

#[cfg(test)]
mod tests {

    #[test]
    fn axes_merge_where_one_loop_serves() {
        let axes = |from: &[usize], to: &[usize]| {
            super::axes(&from.into(), &to.into()).iter().map(|a| (a.extent, a.stride)).collect::<Vec<_>>()
        };
        assert_eq!(axes(&[2, 3, 4], &[2, 3, 4]), [(24, 1)]);
        assert_eq!(axes(&[4], &[2, 3, 4]), [(4, 1), (6, 0)]);
        assert_eq!(axes(&[2, 3, 1], &[2, 3, 4]), [(4, 0), (6, 1)]);
        assert_eq!(axes(&[2, 1, 4], &[2, 3, 4]), [(4, 1), (3, 0), (2, 4)]);
        assert_eq!(axes(&[1], &[5, 7]), [(35, 0)]);
    }
}
