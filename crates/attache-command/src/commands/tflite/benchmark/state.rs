//! The state of an interpreter as `benchmark_model` prints it: tensors with their sizes, and operators.

use attache::model::{Subgraph, Tensor};
use attache::{Interpreter, Outcome};

use super::super::flags::Flags;

/// Most characters of a column; names of tensors are seldom longer, and formatted widths have 16 bits.
const MOST_WIDTH: usize = 1000;

/// Widths of columns, which the command line sets.
struct Widths {
    name: usize,
    data_type: usize,
    allocation: usize,
}

/// Returns how the memory of a tensor is made, in TensorFlow Lite's words.
pub(super) fn allocation(tensor: &Tensor) -> &'static str {
    match (&tensor.constant, tensor.is_variable) {
        (Some(_), _) => "kTfLiteMmapRo",
        (None, true) => "kTfLiteArenaRwPersistent",
        (None, false) => "kTfLiteArenaRw",
    }
}

/// Returns the bytes of a tensor with the shape of the file; 0 for types of no fixed size.
pub(super) fn bytes(tensor: &Tensor) -> usize {
    tensor.data_type.byte_size(tensor.shape.elements()).unwrap_or(0)
}

/// Describes an interpreter, at the time that `when` names.
pub(super) fn describe(when: &str, interpreter: &Interpreter, flags: &Flags) -> Vec<String> {
    let width = |name: &str| flags.count(name).unwrap_or(1).min(MOST_WIDTH);
    let widths = Widths {
        name: width("tensor_name_display_length"),
        data_type: width("tensor_type_display_length"),
        allocation: width("alloc_type_display_length"),
    };
    let subgraphs = interpreter.model().subgraphs();
    let mut lines =
        vec![format!("====={when} interpreter state====="), format!("Interpreter has {} subgraphs.", subgraphs.len())];
    for (index, subgraph) in subgraphs.iter().enumerate() {
        let own = (index == interpreter.subgraph()).then_some(interpreter);
        lines.extend(of_subgraph(index, subgraph, own, &widths));
    }
    lines
}

fn of_subgraph(index: usize, subgraph: &Subgraph, interpreter: Option<&Interpreter>, widths: &Widths) -> Vec<String> {
    let Subgraph { tensors, operators, inputs, outputs, .. } = subgraph;
    let mut lines =
        vec![format!("-----Subgraph-{index} has {} tensors and {} nodes-----", tensors.len(), operators.len())];
    for (what, list) in [("Inputs", inputs), ("Outputs", outputs)] {
        let size: usize = list.iter().map(|tensor| bytes(&tensors[*tensor])).sum();
        lines.push(format!("{} {what}: {list:?} -> {}", list.len(), sized(size)));
    }
    let Widths { name, data_type, allocation: kind } = *widths;
    lines.push(format!(
        "{:>10} {:<name$} {:<data_type$} {:<kind$} {:<20} Shape",
        "Tensor ID", "Name", "Type", "AllocType", "Size (Bytes/MB)"
    ));
    for (index, tensor) in tensors.iter().enumerate() {
        let type_name = format!("kTfLite{}", capitalized(tensor.data_type.name()));
        lines.push(format!(
            "{:>10} {:<name$} {:<data_type$} {:<kind$} {:<20} {}",
            format!("Tensor {index}"),
            cut(&tensor.name, name),
            cut(&type_name, data_type),
            cut(allocation(tensor), kind),
            sized(bytes(tensor)),
            tensor.shape
        ));
    }
    for (index, operator) in operators.iter().enumerate() {
        let placed = interpreter.and_then(|interpreter| interpreter.placement().nodes.get(index));
        let placed = placed.map_or(String::new(), |node| match &node.outcome {
            Outcome::On { delegate, partition } => format!(" (delegated to {delegate}, partition {partition})"),
            Outcome::Cpu => String::new(),
            Outcome::Folded { into } => format!(" (not run: {into})"),
        });
        let inputs: Vec<i64> =
            operator.inputs.iter().map(|input| input.map_or(-1, |input| i64::try_from(input).unwrap_or(-1))).collect();
        lines.push(format!("Node {index} {}{placed}", operator.code.name()));
        lines.push(format!("  {} Input Tensors: {inputs:?}", inputs.len()));
        lines.push(format!("  {} Output Tensors: {:?}", operator.outputs.len(), operator.outputs));
    }
    lines
}

fn sized(bytes: usize) -> String {
    format!("{bytes} / {:.2}", bytes as f64 / f64::from(1 << 20))
}

/// Returns a name in capitals as one with a capital, such as `Float32`.
fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_string() + &letters.as_str().to_lowercase())
}

/// Shortens a text to `most` characters.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(3)).chain("...".chars()).take(most).collect(),
        false => text.to_owned(),
    }
}
