//! Generates WGSL that stores the elements that a kernel computes: loads of the epilogue's broadcast
//! operands, the epilogue itself and writes to the output.

use std::fmt::Write;

use attache_base::Shape;
use attache_gpu_ir::{Expression, IntExpression, Primitive, Program, Scalar, Value, ValueId};

use crate::kernel::{Epilogue, Kernel, axes, computed_scalar};
use crate::wgsl::accessor::Array;
use crate::wgsl::expression::{expression, functions, integer, vector};
use crate::wgsl::{Context, Writer, integer_expression};

/// Returns the WGSL type of one element that a kernel's primitive passes to `store`.
pub(crate) fn computed_type(program: &Program, kernel: &Kernel) -> &'static str {
    element(computed_scalar(program, kernel))
}

/// Returns the WGSL type of an element.
pub(super) fn element(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::F32 => "f32",
        Scalar::I32 => "i32",
    }
}

/// Adds a WGSL function `name(g)` that loads an operand, broadcast to the shape `to`, for the output's unit
/// `g` of `vector_width` elements: as floats if `element` is `f32`, as integers if it is `i32`.
pub(crate) fn operand(
    writer: &mut Writer<'_>,
    name: &str,
    (id, value): (ValueId, &Value),
    to: &Shape,
    (element, vector_width): (&str, usize),
) {
    let mut axes = axes(&value.shape, to);
    let is_broadcast = axes.first().is_none_or(|axis| axis.stride == 0);
    let width = if is_broadcast { 1 } else { vector_width };
    let array = writer.read(id, width);
    let loaded_type = vector(element, vector_width);
    if let Some(first) = axes.first_mut() {
        first.extent /= vector_width;
    }
    // Strides of outer axes are counted in units of the array. The innermost axis advances by one unit.
    let unit = |axis: usize, stride: usize| if axis == 0 { stride } else { stride / width };
    let mut at = String::new();
    let mut text = format!("fn {name}(g: u32) -> {loaded_type} {{\n    var rest = g;\n    var at = 0u;\n");
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
    let read = if element == "i32" { array.integers("at") } else { array.floats("at") };
    let result = if width == vector_width { read } else { format!("{loaded_type}({read})") };
    let _ = write!(text, "{at}    return {result};\n}}\n");
    writer.function(&text);
}

/// Returns the WGSL of a float expression, converted to elements of type `scalar`. Adds the functions that it
/// calls.
fn float_epilogue(writer: &mut Writer<'_>, expression: &Expression, scalar: Scalar, vector_width: usize) -> String {
    functions(expression, vector_width).iter().for_each(|function| writer.function(function));
    converted(writer, scalar, vector_width, self::expression(expression, vector_width))
}

/// Returns WGSL that converts `floats` to elements of type `scalar`. Adds the conversion function for
/// integers.
fn converted(writer: &mut Writer<'_>, scalar: Scalar, vector_width: usize, floats: String) -> String {
    match scalar {
        Scalar::F32 => floats,
        Scalar::I32 => {
            writer.function(&integer(vector_width));
            format!("integer{vector_width}({floats})")
        }
    }
}

/// Adds the WGSL function `store(g, value)`, which applies the epilogue to `value`, unit `g` of
/// `vector_width` computed elements, and writes it to the kernel's first output. At vector width 1, unit `g`
/// of [`Writer::linear`] must write element `g` and no other.
pub(crate) fn store(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, vector_width: usize) {
    let output = kernel.outputs[0];
    let array = if vector_width == 1 { writer.write_own(output) } else { writer.write(output, vector_width) };
    store_into(writer, context, kernel, vector_width, &array, Operands::Read);
}

/// Adds `store(g, value)` like [`store`], but any invocation may write any unit `g`.
pub(crate) fn store_anywhere(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, vector_width: usize) {
    let array = writer.write(kernel.outputs[0], vector_width);
    store_into(writer, context, kernel, vector_width, &array, Operands::Read);
}

/// Adds `store(g, value, x1, x2, …)` like [`store_anywhere`], but the caller of that WGSL function has loaded
/// the operands with the functions `operand1(g)`, `operand2(g)`, …. Returns the number of operands.
pub(crate) fn store_given(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    vector_width: usize,
) -> usize {
    let array = writer.write(kernel.outputs[0], vector_width);
    store_into(writer, context, kernel, vector_width, &array, Operands::Given);
    if kernel.epilogue.is_identity() { 0 } else { kernel.operands.len() }
}

/// Where a shader loads the epilogue's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// The WGSL function `store` loads the operands.
    Read,
    /// The caller of the WGSL function `store` loads the operands and passes them as arguments.
    Given,
}

/// Adds the WGSL function `name(g, value)`, which applies the epilogue of a kernel within another to the `vector_width`
/// floats or integers of unit `g` of its output and returns them. A prologue of an image whose channel count is not a
/// multiple of 4 has no operands, since fusion then requires an identity epilogue.
pub(crate) fn finish(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    (name, vector_width): (&str, usize),
) {
    let variables = variables(writer, context, kernel, name, vector_width);
    let value = match &kernel.epilogue {
        Epilogue::Float(expression) => float_epilogue(writer, expression, Scalar::F32, vector_width),
        Epilogue::Int(expression) => {
            int_epilogue(writer, &format!("{name}_value"), expression, (1 + kernel.operands.len(), vector_width))
        }
    };
    let of = vector(kernel.epilogue.element(), vector_width);
    writer.function(&format!("fn {name}(g: u32, value: {of}) -> {of} {{\n{variables}    return {value};\n}}\n"));
}

/// Returns WGSL that defines the epilogue's variables `x0`, `x1`, … for unit `g`. Adds the functions that
/// load the operands; their names start with `name`.
fn variables(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    name: &str,
    vector_width: usize,
) -> String {
    let (program, element) = (context.program, kernel.epilogue.element());
    let mut text = "    let x0 = value;\n".to_owned();
    // The results of a twin are no operand that is loaded.
    for (index, id) in kernel.operands.iter().enumerate().filter(|(_, id)| kernel.computed(**id).is_none()) {
        let (index, output) = (index + 1, program.shape(kernel.outputs[0]));
        operand(writer, &format!("{name}{index}"), (*id, program.value(*id)), output, (element, vector_width));
        let _ = writeln!(text, "    let x{index} = {name}{index}(g);");
    }
    text
}

fn store_into(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    vector_width: usize,
    array: &Array,
    how: Operands,
) {
    let program = context.program;
    let output = program.value(kernel.outputs[0]);
    let computed_type = computed_type(program, kernel);
    let operands = kernel.operands.len();
    let variables = variables(writer, context, kernel, "operand", vector_width);
    let is_integer = computed_type == "i32";
    let value = match &kernel.epilogue {
        epilogue if epilogue.is_identity() && is_integer => "value".to_owned(),
        epilogue if epilogue.is_identity() => converted(writer, output.scalar, vector_width, "value".to_owned()),
        Epilogue::Float(expression) => float_epilogue(writer, expression, output.scalar, vector_width),
        Epilogue::Int(expression) => int_epilogue(writer, "int_value", expression, (operands + 1, vector_width)),
    };
    let value = array.write("g", &value);
    let element = vector(computed_type, vector_width);
    let (given, variables) = match how {
        _ if kernel.epilogue.is_identity() => (String::new(), String::new()),
        Operands::Read => (String::new(), variables),
        Operands::Given => {
            let operand = vector(kernel.epilogue.element(), vector_width);
            let given = (1..=operands).map(|index| format!(", x{index}: {operand}")).collect();
            (given, "    let x0 = value;\n".to_owned())
        }
    };
    writer.function(&format!("fn store(g: u32, value: {element}{given}) {{\n{variables}    {value}\n}}\n"));
}

/// Returns WGSL that evaluates an integer expression of `variables` variables of `vector_width` elements
/// each. Adds the expression as a function called `name`, and the functions that it calls.
fn int_epilogue(
    writer: &mut Writer<'_>,
    name: &str,
    expression: &IntExpression,
    (variables, vector_width): (usize, usize),
) -> String {
    integer_expression::functions(expression).iter().for_each(|function| writer.function(function));
    let function =
        integer_expression::int_value(name, expression, variables, &mut |number| writer.signed_param(number.into()));
    writer.function(&function);
    let of = |part: &str| {
        let variables: Vec<String> = (0..variables).map(|index| format!("x{index}{part}")).collect();
        format!("{name}({})", variables.join(", "))
    };
    match vector_width {
        1 => of(""),
        _ => format!("vec4<i32>({})", [".x", ".y", ".z", ".w"].map(of).join(", ")),
    }
}

/// Adds the WGSL function `store(g)`, which computes and stores unit `g` of a float or integer map. The map's
/// inputs are loaded like operands of an epilogue.
pub(crate) fn store_map(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, vector_width: usize) {
    let id = kernel.outputs[0];
    let [variables, value] = mapped(writer, context, (kernel, ""), vector_width);
    let array = if vector_width == 1 { writer.write_own(id) } else { writer.write(id, vector_width) };
    writer.function(&format!("fn store(g: u32) {{\n{variables}    {}\n}}\n", array.write("g", &value)));
}

/// Returns WGSL that defines the variables of a map's expression for unit `g`, and WGSL of its value there. Adds the
/// functions that they call, whose names start with `name`.
pub(super) fn mapped(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (kernel, name): (&Kernel, &str),
    vector_width: usize,
) -> [String; 2] {
    let (program, inputs) = (context.program, kernel.inputs.len());
    let output = program.value(kernel.outputs[0]);
    let is_integer = matches!(kernel.primitive, Primitive::IntMap { .. });
    let element = if is_integer { "i32" } else { "f32" };
    for (index, id) in kernel.inputs.iter().enumerate() {
        let (name, value) = (format!("{name}operand{index}"), program.value(*id));
        operand(writer, &name, (*id, value), &output.shape, (element, vector_width));
    }
    let value = match &kernel.primitive {
        Primitive::Map { expression, .. } => float_epilogue(writer, expression, output.scalar, vector_width),
        Primitive::IntMap { expression, .. } => {
            int_epilogue(writer, &format!("{name}int_value"), expression, (inputs, vector_width))
        }
        other => unreachable!("{} is no map", other.name()),
    };
    let variable = |index: usize| format!("    let x{index} = {name}operand{index}(g);\n");
    [(0..inputs).map(variable).collect(), value]
}
