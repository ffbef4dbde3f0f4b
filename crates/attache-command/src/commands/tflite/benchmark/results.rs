//! The files that `benchmark_model` writes: results, outputs, and how the model runs, as messages.

use std::path::{Path, PathBuf};

use attache::model::Subgraph;
use attache::{DataType, Interpreter, Outcome};

use super::super::flags::Flags;
use super::super::lines::microseconds;
use super::Outcome as Measured;
use super::state;
use crate::arguments::entry::Entry;
use crate::failure::Failure;
use crate::io::message::{Message, Value};
use crate::io::numbers::{is_float, numbers};
use crate::measure::timing::{Statistics, upper_median};

/// The files to write, each with its bytes.
pub(super) type Files = Vec<(PathBuf, Vec<u8>)>;

/// The flags that name files to write.
pub(super) static DESTINATIONS: [&str; 6] = [
    "result_file_path",
    "output_filepath",
    "output_proto_filepath",
    "op_profiling_output_file",
    "profiling_output_csv_file",
    "model_runtime_info_output_file",
];

/// Returns the message `BenchmarkResult`.
pub(super) fn result(name: &str, measured: &Measured) -> Message {
    let times = microseconds(&measured.runs);
    let milliseconds = |number: f64| (number / 1e3) as f32;
    let mut latency = Message::default();
    if let Some(all) = Statistics::of(&times) {
        latency = latency
            .with(1, "avg_ms", milliseconds(all.mean))
            .with(2, "min_ms", milliseconds(all.min))
            .with(3, "max_ms", milliseconds(all.max))
            .with(4, "stddev_ms", milliseconds(all.std))
            .with(5, "median_ms", milliseconds(upper_median(&times)))
            .with(6, "p5_ms", milliseconds(all.p5))
            .with(7, "p95_ms", milliseconds(all.p95));
    }
    let warm_up = Statistics::of(&microseconds(&measured.warm_up));
    let latency = latency
        .with(8, "init_ms", measured.init as f32)
        .with(9, "first_inference_ms", measured.first() as f32)
        .with(10, "average_warm_up_ms", warm_up.map_or(0.0, |all| milliseconds(all.mean)));
    let megabytes = |bytes: u64| (bytes as f64 / f64::from(1 << 20)) as f32;
    let kilobytes = |bytes: u64| i64::try_from(bytes >> 10).unwrap_or(i64::MAX);
    let memory = Message::default()
        .with(1, "init_footprint_kb", kilobytes(measured.memory.init))
        .with(2, "overall_footprint_kb", kilobytes(measured.memory.overall))
        .with_some(3, "peak_mem_mb", measured.memory.peak.map(megabytes));
    let size = measured.model_bytes as f64 / 1e6;
    let seconds = measured.runs.iter().sum::<f64>() / 1e3;
    // The throughput is that of the inputs, in units of 2²⁰ bytes, and not of the model.
    let input = measured.input_bytes as f64 / f64::from(1 << 20);
    let rate = if seconds > 0.0 { input * measured.runs.len() as f64 / seconds } else { 0.0 };
    let other = Message::default()
        .with(1, "model_size_mb", size as f32)
        .with(2, "num_runs", measured.runs.len())
        .with(3, "num_warmup_runs", measured.warm_up.len())
        .with(4, "model_throughput_in_mb_per_sec", rate as f32);
    Message::default().with(1, "name", name).with(2, "latency_metrics", latency).with(3, "memory_metrics", memory).with(
        4,
        "misc_metrics",
        other,
    )
}

/// Adds the outputs of the last run, if the command line asks for them: their bytes one after the other, and a
/// `tensorflow.Example` with a feature for each.
pub(super) fn outputs(flags: &Flags, interpreter: &Interpreter, to: &mut Files) -> Result<(), Failure> {
    let (raw, example) = (flags.some("output_filepath"), flags.some("output_proto_filepath"));
    if raw.is_none() && example.is_none() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut features = Message::default();
    for (index, info) in interpreter.outputs().iter().enumerate() {
        let own = interpreter.read_bytes(index)?;
        bytes.extend_from_slice(own);
        let feature = feature(info.data_type, own);
        features = features.with(
            1,
            "feature",
            Message::default().with(1, "key", info.name.as_str()).with(2, "value", feature),
        );
    }
    to.extend(raw.map(|path| (path.into(), bytes)));
    let example = example.map(Path::new);
    to.extend(example.map(|path| (path.to_owned(), Message::default().with(1, "features", features).for_file(path))));
    Ok(())
}

/// Returns the message `Feature`: floats, integers, or else the bytes.
fn feature(data_type: DataType, bytes: &[u8]) -> Message {
    match numbers(data_type, bytes) {
        Some(values) if is_float(data_type) => {
            let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            Message::default().with(2, "float_list", Message::default().with(1, "value", values))
        }
        Some(values) => {
            let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
            Message::default().with(3, "int64_list", Message::default().with(1, "value", values))
        }
        None => Message::default().with(1, "bytes_list", Message::default().with(1, "value", bytes.to_vec())),
    }
}

/// Returns the message `ModelRuntimeDetails`: the subgraph that runs, with its tensors as edges, and its nodes with the
/// delegate nodes that replace them.
pub(super) fn runtime(entry: &Entry<'_>, interpreter: &Interpreter) -> Message {
    let subgraph = entry.subgraph();
    let placement = interpreter.placement();
    let count = subgraph.operators.len();
    let place = |index: usize| placement.nodes.get(index).map(|node| &node.outcome);
    let nodes = (0..count).map(|index| {
        let operator = &subgraph.operators[index];
        let inputs = operator.inputs.iter().map(|input| input.map_or(-1, whole)).collect::<Vec<_>>();
        let delegated = match place(index) {
            Some(Outcome::On { partition, .. }) => Some(count + partition),
            _ => None,
        };
        Message::default()
            .with(1, "id", index)
            .with(2, "name", operator.code.name())
            .with(3, "type", operator.code.name())
            .with(4, "inputs", inputs)
            .with(5, "outputs", wholes(&operator.outputs))
            .with(6, "intermediates", wholes(&operator.intermediates))
            .with_some(9, "delegated_to_node_id", delegated)
    });
    let mut plan: Vec<usize> = Vec::new();
    for index in 0..count {
        let node = match place(index) {
            Some(Outcome::On { partition, .. }) => count + partition,
            Some(Outcome::Folded { .. }) => continue,
            _ => index,
        };
        if !plan.contains(&node) {
            plan.push(node);
        }
    }
    let delegates = (0..placement.partitions).map(|partition| delegate_node(count, partition, &place));
    let edges = subgraph.tensors.iter().enumerate().map(|(index, _)| edge(subgraph, index));
    let details = Message::default()
        .with(1, "subgraph_id", entry.index)
        .with_all(2, "edges", edges)
        .with_all(3, "nodes", nodes)
        .with_all(3, "nodes", delegates)
        .with(4, "execution_plan", wholes(&plan))
        .with(5, "subgraph_type", Value::Constant(1, "TFLITE_SUBGRAPH"));
    Message::default().with(1, "model_name", entry.name).with(2, "subgraphs", details)
}

/// Returns the node that replaces the nodes of a partition.
fn delegate_node<'a>(count: usize, partition: usize, place: &impl Fn(usize) -> Option<&'a Outcome>) -> Message {
    let mut name = "";
    let mut replaced = Vec::new();
    for index in 0..count {
        if let Some(Outcome::On { delegate, partition: own }) = place(index)
            && *own == partition
        {
            name = delegate;
            replaced.push(index);
        }
    }
    let name = if name == "GPU" { "TfLiteGpuDelegateV2" } else { name };
    let details =
        Message::default().with(1, "delegate_name", name).with(2, "tflite_node_ids_replaced", wholes(&replaced));
    Message::default().with(1, "id", count + partition).with(2, "name", name).with(3, "type", "DELEGATE").with(
        8,
        "delegate_node_details",
        details,
    )
}

/// Returns the message `Edge` of a tensor.
fn edge(subgraph: &Subgraph, index: usize) -> Message {
    let tensor = &subgraph.tensors[index];
    Message::default()
        .with(1, "id", index)
        .with(2, "name", tensor.name.as_str())
        .with(3, "data_type", edge_type(tensor.data_type))
        .with(4, "shape", wholes(tensor.shape.extents()))
        .with(5, "allocation_type", state::allocation(tensor))
        .with(7, "size", state::bytes(tensor))
}

/// Returns the number that the message `Edge` has for a type.
fn edge_type(data_type: DataType) -> Value {
    let (number, name) = match data_type {
        DataType::Float32 => (1, "FLOAT32"),
        DataType::Int32 => (2, "INT32"),
        DataType::UInt8 => (3, "UINT8"),
        DataType::Int64 => (4, "INT64"),
        DataType::String => (5, "STRING"),
        DataType::Bool => (6, "BOOL"),
        DataType::Int16 => (7, "INT16"),
        DataType::Complex64 => (8, "COMPLEX64"),
        DataType::Int8 => (9, "INT8"),
        DataType::Float16 => (10, "FLOAT16"),
        DataType::Float64 => (11, "FLOAT64"),
        DataType::Complex128 => (12, "COMPLEX128"),
        DataType::UInt64 => (13, "UINT64"),
        DataType::Resource => (14, "RESOURCE"),
        DataType::Variant => (15, "VARIANT"),
        DataType::UInt32 => (16, "UINT32"),
        DataType::UInt16 => (17, "UINT16"),
        DataType::Int4 => (18, "INT4"),
        DataType::BFloat16 => (19, "BFLOAT16"),
        _ => (0, "UNKNOWN_TYPE"),
    };
    Value::Constant(number, name)
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn wholes(numbers: &[usize]) -> Vec<i64> {
    numbers.iter().copied().map(whole).collect()
}
