//! Tests of [`Limits`]: a model that exceeds a limit results in an error that names the limit, and runs if
//! the limit is high enough.

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ErrorKind, Interpreter, Limits, Model, OperatorBuilder, TensorBuilder};

use crate::common::Net;

/// Builds a model of two consecutive additions of 1,000 elements: 4,000 bytes per tensor, 2,000 multiply-adds
/// in all.
fn model() -> Model {
    let mut net = Net::new();
    let x = net.tensor("x", &[1000]);
    let middle = net.add(x, x, &[1000]);
    let y = net.add(middle, x, &[1000]);
    net.finish(&[x], &[y])
}

/// Returns the error of building an interpreter with these limits; `None` if it can be built.
fn limit_error(model: &Model, limits: Limits) -> Option<String> {
    let error = Interpreter::builder(model).threads(1).limits(limits).build().err()?;
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    Some(error.to_string())
}

#[test]
fn each_limit_is_named() {
    let most = Limits::default();
    let cases = [
        ("tensor_bytes", most.clone().tensor_bytes(3999), most.clone().tensor_bytes(4000)),
        ("arena_bytes", most.clone().arena_bytes(7999), most.clone().arena_bytes(1 << 14)),
        ("operators", most.clone().operators(1), most.clone().operators(2)),
        ("multiply_adds", most.clone().multiply_adds(1999), most.clone().multiply_adds(2000)),
    ];
    for (name, too_small, enough) in cases {
        let text = limit_error(&model(), too_small).unwrap_or_else(|| panic!("{name} is not limited"));
        assert!(
            text.contains(&format!("the limit {name} is")) && text.contains("InterpreterBuilder::limits"),
            "{text}"
        );
        assert_eq!(limit_error(&model(), enough), None);
    }
}

#[test]
fn contractions_count_their_depth() {
    let mut net = Net::new();
    let x = net.tensor("x", &[8, 32]);
    let weights = net.builder.tensor(0, TensorBuilder::values("weights", [16, 32], &[0.5f32; 512]));
    let y = net.tensor("y", &[8, 16]);
    let operator = OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, [x, weights], [y]);
    net.builder.operator(0, operator.with(|written| written.builtin_options = options()));
    let model = net.finish(&[x], &[y]);
    let limits = |multiply_adds| Limits::default().multiply_adds(multiply_adds);
    assert!(limit_error(&model, limits(8 * 16 * 32 - 1)).is_some_and(|text| text.contains("it takes 4096,")));
    assert_eq!(limit_error(&model, limits(8 * 16 * 32)), None);
}

fn options() -> attache::model::schema::BuiltinOptionsT {
    let options = attache::model::schema::FullyConnectedOptionsT::default();
    attache::model::schema::BuiltinOptionsT::FullyConnectedOptions(Box::new(options))
}

#[test]
fn what_a_run_sizes_is_limited_at_that_run() {
    let mut net = Net::new();
    let x = net.tensor("x", &[1000]);
    let wanted = net.builder.tensor(0, TensorBuilder::new("wanted", DataType::Int32, [1]));
    let shaped = net.reshape_by(x, wanted, &[1]);
    let y = net.add(shaped, shaped, &[1]);
    let model = net.finish(&[x, wanted], &[y]);
    let run = |multiply_adds| {
        let limits = Limits::default().multiply_adds(multiply_adds);
        let mut interpreter = Interpreter::builder(&model).threads(1).limits(limits).build().unwrap();
        interpreter.write(1, &[1000i32]).unwrap();
        interpreter.invoke()
    };
    let error = run(999).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("the limit multiply_adds is 999"), "{error}");
    run(1000).unwrap();
}

/// Builds a model of one operator with the input `x`, constant weights and the output `y`, of these shapes.
fn contraction(code: BuiltinOperator, x: &[usize], weights: &[usize], y: &[usize]) -> Model {
    let mut net = Net::new();
    let input = net.tensor("x", x);
    let values = vec![0.5f32; weights.iter().product()];
    let weights = net.builder.tensor(0, TensorBuilder::values("weights", weights, &values));
    let output = net.tensor("y", y);
    let operator = OperatorBuilder::new(code, [input, weights], [output]);
    let operator = match code {
        BuiltinOperator::FULLY_CONNECTED => operator.with(|written| written.builtin_options = options()),
        _ => operator,
    };
    net.builder.operator(0, operator);
    net.finish(&[input], &[output])
}

#[test]
fn packed_weights_are_counted() {
    let depth = 1 << 20;
    // A single output does not fill a vector register. Kernels pad it to a vector, which needs up to sixteen
    // times the memory of the weights.
    let model = contraction(BuiltinOperator::FULLY_CONNECTED, &[1, depth], &[1, depth], &[1, 1]);
    let limits = |arena_bytes| Limits::default().arena_bytes(arena_bytes);
    let text = limit_error(&model, limits(32 << 20)).expect("weights that take 64 MiB");
    assert!(text.contains("FULLY_CONNECTED") && text.contains("packed weights and scratch"), "{text}");
    assert!(text.contains("the limit arena_bytes is 33554432"), "{text}");
    assert_eq!(limit_error(&model, limits(128 << 20)), None);
}

#[test]
fn many_small_matrices_are_not_packed_all_at_once() {
    let count = 1 << 20;
    let model = contraction(BuiltinOperator::BATCH_MATMUL, &[count, 1, 1], &[count, 1, 1], &[count, 1, 1]);
    // If all matrices were packed together, each would need hundreds of bytes.
    let limits = Limits::default().arena_bytes(32 << 20);
    let mut interpreter = Interpreter::builder(&model).threads(1).limits(limits).build().unwrap();
    let numbers: Vec<f32> = (0..count).map(|number| number as f32).collect();
    interpreter.write(0, &numbers).unwrap();
    interpreter.invoke().unwrap();
    let output = interpreter.read::<f32>(0).unwrap();
    assert!(output.iter().zip(&numbers).all(|(found, number)| *found == number * 0.5));
}
