//! Tests of unusual graphs on the CPU.

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ErrorKind, Interpreter, Model, OperatorBuilder, Outcome, TensorBuilder};

use crate::common::{Net, floats, on_cpu, run};

#[test]
fn interpreters_may_change_threads() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync + Clone>() {}
    is_send::<Interpreter>();
    is_send::<attache::Error>();
    is_shared::<Model>();
}

#[test]
fn a_diamond_is_joined() {
    let mut net = Net::new();
    let x = net.tensor("x", &[3]);
    let left = net.relu(x, &[3]);
    let right = net.add(x, x, &[3]);
    let y = net.add(left, right, &[3]);
    let mut interpreter = on_cpu(&net.finish(&[x], &[y]));
    run(&mut interpreter, &[&[-1.0, 0.5, 2.0]]);
    assert_eq!(floats(&interpreter, 0), [-2.0, 1.5, 6.0]);
    run(&mut interpreter, &[&[1.0, 1.0, 1.0]]);
    assert_eq!(floats(&interpreter, 0), [3.0, 3.0, 3.0]);
}

#[test]
fn an_output_may_be_read_by_others_and_be_named_twice() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let middle = net.add(x, x, &[2]);
    let more = net.add(middle, x, &[2]);
    let end = net.multiply(more, more, &[2]);
    let mut interpreter = on_cpu(&net.finish(&[x], &[middle, end, middle]));
    run(&mut interpreter, &[&[1.0, 2.0]]);
    assert_eq!(floats(&interpreter, 0), [2.0, 4.0]);
    assert_eq!(floats(&interpreter, 1), [9.0, 36.0]);
    assert_eq!(floats(&interpreter, 2), [2.0, 4.0]);
}

#[test]
fn outputs_may_be_inputs_and_constants() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let c = net.constant(&[5.0, 6.0]);
    let folded = net.add(c, c, &[2]);
    let model = net.finish(&[x, x], &[c, x, folded]);
    let mut interpreter = on_cpu(&model);
    assert_eq!(interpreter.placement().nodes[0].outcome, Outcome::Folded { into: "constant".into() });
    run(&mut interpreter, &[&[1.0, 2.0]]);
    assert_eq!(floats(&interpreter, 0), [5.0, 6.0]);
    assert_eq!(floats(&interpreter, 1), [1.0, 2.0]);
    assert_eq!(floats(&interpreter, 2), [10.0, 12.0]);
}

#[test]
fn inputs_keep_their_values() {
    let mut net = Net::new();
    let (x, y) = (net.tensor("x", &[64]), net.tensor("y", &[64]));
    let (mut a, b) = (net.add(x, y, &[64]), net.relu(y, &[64]));
    for _ in 0..10 {
        a = net.add(a, b, &[64]);
    }
    let mut interpreter = on_cpu(&net.finish(&[x, y], &[a]));
    run(&mut interpreter, &[&[1.0; 64], &[2.0; 64]]);
    assert_eq!(floats(&interpreter, 0), [23.0; 64]);
    interpreter.write(0, &[3.0f32; 64]).unwrap();
    assert_eq!(floats(&interpreter, 0), [23.0; 64], "outputs are good until the next run");
    interpreter.invoke_repeatedly(3).unwrap();
    assert_eq!(floats(&interpreter, 0), [25.0; 64]);
    assert!(interpreter.report().cpu_arena_bytes <= 5 * 256, "{:?}", interpreter.report());
}

#[test]
fn a_tensor_that_is_an_input_twice_has_one_shape() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.add(x, x, &[2]);
    let model = net.finish(&[x, x], &[y]);
    let mut interpreter = on_cpu(&model);
    // By either of the two, whichever was resized before.
    for (input, length) in [(0, 3), (1, 4), (0, 5)] {
        interpreter.resize_input(input, &[length]).unwrap();
        assert_eq!([0, 1].map(|input| interpreter.inputs()[input].shape.elements()), [length; 2]);
        interpreter.write(1 - input, &vec![1.5f32; length]).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(floats(&interpreter, 0), vec![3.0; length]);
    }
    for input in [0, 1] {
        let interpreter = Interpreter::builder(&model).input_shape(input, &[6]).build().unwrap();
        assert_eq!(interpreter.outputs()[0].shape.elements(), 6);
    }
}

#[test]
fn the_data_of_an_input_is_its_first_value() {
    let mut net = Net::new();
    let (x, c) = (net.tensor("x", &[2]), net.constant(&[5.0, 6.0]));
    let twice = net.add(c, c, &[2]);
    let y = net.multiply(twice, x, &[2]);
    let model = net.finish(&[x, c], &[y, c]);
    let compiled = Interpreter::builder(&model).compile().unwrap();
    assert!(compiled.placement().nodes.iter().all(|node| node.outcome == Outcome::Cpu), "nothing is folded");
    let mut interpreter = compiled.interpreter().unwrap();
    interpreter.write(0, &[1.0f32, 2.0]).unwrap();
    let outputs = |interpreter: &mut Interpreter| {
        interpreter.invoke().unwrap();
        [0, 1].map(|output| floats(interpreter, output))
    };
    assert_eq!(outputs(&mut interpreter), [[10.0, 24.0], [5.0, 6.0]]);
    interpreter.write(1, &[7.0f32, 8.0]).unwrap();
    assert_eq!(outputs(&mut interpreter), [[14.0, 32.0], [7.0, 8.0]]);
    // Other interpreters have the first value, other shapes none.
    let mut other = compiled.interpreter().unwrap();
    other.resize_input(0, &[1]).unwrap();
    other.write(0, &[1.0f32]).unwrap();
    assert_eq!(outputs(&mut other), [[10.0, 12.0], [5.0, 6.0]]);
    other.resize_input(1, &[3]).unwrap();
    assert_eq!(outputs(&mut other), [[0.0; 3], [0.0; 3]]);
}

#[test]
fn no_shape_follows_from_the_data_of_an_input() {
    let mut net = Net::new();
    let x = net.tensor("x", &[4]);
    let wanted = net.builder.tensor(0, TensorBuilder::values("wanted", [2], &[2i32, 2]));
    let y = net.reshape_by(x, wanted, &[2, 2]);
    let mut interpreter = on_cpu(&net.finish(&[x, wanted], &[y]));
    interpreter.invoke().unwrap();
    assert_eq!(*interpreter.outputs()[0].shape, [2, 2]);
    interpreter.write(1, &[4i32, 1]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(*interpreter.outputs()[0].shape, [4, 1]);
}

#[test]
fn reshapes_share_memory_where_that_is_right() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2, 3]);
    let flat = net.reshape(x, &[6], &[6]);
    let tall = net.reshape(flat, &[3, 2], &[3, 2]);
    let sum = net.add(tall, tall, &[3, 2]);
    let back = net.reshape(sum, &[1, -1], &[1, 6]);
    let wide = net.reshape(back, &[6], &[6]);
    let mut interpreter = on_cpu(&net.finish(&[x], &[flat, wide, back, sum]));
    run(&mut interpreter, &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]);
    interpreter.input_mut::<f32>(0).unwrap().fill(9.0);
    assert_eq!(floats(&interpreter, 0), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "an output doesn't change with an input");
    for output in 1..4 {
        assert_eq!(floats(&interpreter, output), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    }
    assert_eq!(interpreter.outputs()[1].shape.extents(), [6]);
    assert_eq!(interpreter.outputs()[2].shape.extents(), [1, 6]);
    assert_eq!(interpreter.report().cpu_arena_bytes, 64 + 64 + 24, "x, its copy, the sum");
}

#[test]
fn tensors_without_elements_are_all_right() {
    let mut net = Net::new();
    let x = net.tensor("x", &[0, 3]);
    let (a, b) = (net.add(x, x, &[0, 3]), net.relu(x, &[0, 3]));
    let y = net.multiply(a, b, &[0, 3]);
    let mut interpreter = on_cpu(&net.finish(&[x], &[y, a]));
    run(&mut interpreter, &[&[]]);
    assert!(floats(&interpreter, 0).is_empty());
}

#[test]
fn inputs_can_be_resized() {
    let mut net = Net::new();
    let (x, y) = (net.tensor("x", &[1, 2]), net.tensor("y", &[2]));
    let sum = net.add(x, y, &[1, 2]);
    let flat = net.reshape(sum, &[-1], &[2]);
    let z = net.relu(flat, &[2]);
    let mut interpreter = on_cpu(&net.finish(&[x, y], &[z]));
    interpreter.write(1, &[10.0f32, 20.0]).unwrap();
    interpreter.resize_input(0, &[3, 2]).unwrap();
    assert_eq!(interpreter.inputs()[0].shape.extents(), [3, 2]);
    assert_eq!(interpreter.outputs()[0].shape.extents(), [6]);
    interpreter.write(0, &[1.0f32, 2.0, 3.0, 4.0, -50.0, 6.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(floats(&interpreter, 0), [11.0, 22.0, 13.0, 24.0, 0.0, 26.0], "the other input kept its value");

    let error = interpreter.resize_input(0, &[3, 5]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.outputs()[0].shape.extents(), [6], "a failed resize changes nothing");

    interpreter.resize_inputs(&[(0, &[1, 3]), (1, &[3])]).unwrap();
    run(&mut interpreter, &[&[1.0, 2.0, 3.0], &[1.0, 1.0, -4.0]]);
    assert_eq!(floats(&interpreter, 0), [2.0, 3.0, 0.0]);
    assert_eq!(interpreter.resize_input(2, &[1]).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn shapes_may_be_known_only_at_run_time() {
    let mut net = Net::new();
    let x = net.tensor("x", &[6]);
    let wanted = net.builder.tensor(0, TensorBuilder::new("wanted", DataType::Int32, [2]));
    let reshaped = net.reshape_by(x, wanted, &[1, 1]);
    let sum = net.add(reshaped, reshaped, &[1, 1]);
    let flat = net.reshape(sum, &[6], &[6]);
    let end = net.add(flat, x, &[6]);
    let mut interpreter = on_cpu(&net.finish(&[x, wanted], &[sum, end]));
    assert_eq!(interpreter.read::<f32>(0).unwrap_err().kind(), ErrorKind::Usage, "no run has made it yet");
    interpreter.write(0, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    for shape in [[2, 3], [6, 1], [2, 3]] {
        interpreter.write(1, &shape).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.outputs()[0].shape.extents(), shape.map(|extent| extent as usize));
        assert_eq!(floats(&interpreter, 0), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(floats(&interpreter, 1), [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]);
    }
    interpreter.write(1, &[4, 2]).unwrap();
    let error = interpreter.invoke().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.to_string().starts_with("subgraph 0, operator 0 (RESHAPE): "), "{error}");
}

#[test]
fn variables_live_on_and_can_be_reset() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let state = net.builder.tensor(0, TensorBuilder::new("state", DataType::Float32, [2]).variable());
    let y = net.add(x, state, &[2]);
    let mut interpreter = on_cpu(&net.finish(&[x], &[y, state]));
    run(&mut interpreter, &[&[1.0, 2.0]]);
    interpreter.reset_variables();
    run(&mut interpreter, &[&[1.0, 2.0]]);
    assert_eq!((floats(&interpreter, 0), floats(&interpreter, 1)), (vec![1.0, 2.0], vec![0.0, 0.0]));
}

#[test]
fn all_missing_operators_are_listed() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let a = net.unknown(x, &[2]);
    let b = net.relu(a, &[2]);
    let c = net.unknown(b, &[2]);
    let error = Interpreter::builder(&net.finish(&[x], &[c])).build().err().unwrap();
    assert_eq!((error.kind(), error.places().len()), (ErrorKind::Unsupported, 2));
    let text = error.to_string();
    assert!(text.contains("operator 0 (Nobody): ") && text.contains("operator 2 (Nobody): "), "{text}");
}

#[test]
fn all_wrong_operators_are_listed() {
    let mut net = Net::new();
    let (x, y) = (net.tensor("x", &[2]), net.tensor("y", &[3]));
    let (a, b) = (net.add(x, y, &[2]), net.multiply(x, y, &[2]));
    let error = Interpreter::builder(&net.finish(&[x, y], &[a, b])).build().err().unwrap();
    assert_eq!((error.kind(), error.places().len()), (ErrorKind::Model, 2));
}

#[test]
fn a_loop_in_the_graph_is_an_error() {
    let mut net = Net::new();
    let (x, y) = (net.tensor("x", &[2]), net.tensor("y", &[2]));
    net.builder.operator(0, OperatorBuilder::new(BuiltinOperator::ADD, [x, y], [y]));
    let error = Interpreter::builder(&net.finish(&[x], &[y])).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Model);
}

#[test]
fn too_much_memory_is_an_error() {
    let mut net = Net::new();
    let x = net.tensor("x", &[1 << 20, 1 << 20]);
    let y = net.relu(x, &[1 << 20, 1 << 20]);
    let error = Interpreter::builder(&net.finish(&[x], &[y])).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("4398046511104 bytes, and the limit tensor_bytes is"), "{error}");
}

#[test]
fn what_nobody_reads_is_removed() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.relu(x, &[2]);
    net.unknown(y, &[2]);
    let interpreter = on_cpu(&net.finish(&[x], &[y]));
    assert_eq!(interpreter.placement().nodes[0].outcome, Outcome::Cpu);
    assert!(
        matches!(&interpreter.placement().nodes[1].outcome, Outcome::Folded { into } if into.starts_with("removed"))
    );
}

#[test]
fn signatures_run_by_name() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.relu(x, &[2]);
    net.builder.signature("serve", 0, &[("image", x)], &[("scores", y)]);
    let model = net.finish(&[x], &[y]);
    let mut interpreter = Interpreter::builder(&model).signature("serve").build().unwrap();
    assert_eq!((interpreter.input_index("image"), interpreter.input_index("x")), (Some(0), Some(0)));
    assert_eq!((interpreter.output_index("scores"), interpreter.output_index("image")), (Some(0), None));
    assert_eq!(interpreter.signatures().collect::<Vec<_>>(), ["serve"]);
    let mut runner = interpreter.signature("serve").unwrap();
    runner.write("image", &[-1.0f32, 1.0]).unwrap();
    runner.invoke().unwrap();
    assert_eq!(runner.read::<f32>("scores").unwrap(), [0.0, 1.0]);
    assert_eq!(runner.write("picture", &[0.0f32]).unwrap_err().kind(), ErrorKind::Usage);
    assert!(interpreter.signature("train").err().unwrap().to_string().contains("\"serve\""));
    assert_eq!(Interpreter::builder(&model).signature("train").build().err().unwrap().kind(), ErrorKind::Usage);
}

#[test]
fn mistakes_of_the_caller_are_named() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.relu(x, &[2]);
    let mut interpreter = on_cpu(&net.finish(&[x], &[y]));
    let errors = [
        interpreter.write(0, &[1.0f32]).unwrap_err(),
        interpreter.write(0, &[1i32, 2]).unwrap_err(),
        interpreter.write(1, &[1.0f32, 2.0]).unwrap_err(),
        interpreter.write_bytes(0, &[0; 7]).unwrap_err(),
        interpreter.read::<i8>(0).unwrap_err(),
        interpreter.read::<f32>(5).unwrap_err(),
    ];
    let texts = errors.iter().map(|error| (error.kind(), error.to_string())).collect::<Vec<_>>();
    assert!(texts.iter().all(|(kind, _)| *kind == ErrorKind::Usage), "{texts:?}");
    assert_eq!(texts[0].1, "input 0 has 2 elements, not 1");
    assert_eq!(texts[1].1, "input 0 (\"x\") is of type FLOAT32, not INT32");
    assert_eq!(texts[2].1, "there is no input 1; their number is 1");
}

#[test]
fn interpreters_share_a_model_on_several_threads() {
    let mut net = Net::new();
    let x = net.tensor("x", &[1000]);
    let y = net.add(x, x, &[1000]);
    let model = net.finish(&[x], &[y]);
    std::thread::scope(|scope| {
        for value in 0..4 {
            let mut interpreter = Interpreter::builder(&model).threads(2).build().unwrap();
            scope.spawn(move || {
                for round in 0..100 {
                    let value = (value * 100 + round) as f32;
                    run(&mut interpreter, &[&[value; 1000]]);
                    assert!(interpreter.read::<f32>(0).unwrap().iter().all(|sum| *sum == 2.0 * value));
                }
            });
        }
    });
}

#[test]
fn indices_and_counts_cost_nothing_but_an_error() {
    let mut net = Net::new();
    let x = net.tensor("x", &[2]);
    let y = net.add(x, x, &[2]);
    let model = net.finish(&[x], &[y]);
    for input in [1, 1 << 40, usize::MAX] {
        let error = Interpreter::builder(&model).input_shape(input, &[3]).build().err().unwrap();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Usage, format!("there is no input {input}; their number is 1"))
        );
    }
    let builder = Interpreter::builder(&model).input_shape(0, &[9]).input_shape(0, &[3]).threads(usize::MAX);
    let mut interpreter = builder.build().unwrap();
    run(&mut interpreter, &[&[1.0, 2.0, 3.0]]);
    assert_eq!(floats(&interpreter, 0), [2.0, 4.0, 6.0]);
    for index in [1, usize::MAX] {
        assert!(interpreter.write(index, &[1.0f32]).is_err() && interpreter.write_bytes(index, &[1]).is_err());
        assert!(interpreter.input_mut::<f32>(index).is_err() && interpreter.input_bytes_mut(index).is_err());
        assert!(interpreter.read::<f32>(index).is_err() && interpreter.read_bytes(index).is_err());
        assert!(interpreter.read_into(index, &mut [0.0f32]).is_err());
        assert!(interpreter.read_bytes_into(index, &mut [0]).is_err());
        assert!(interpreter.resize_input(index, &[1]).is_err());
    }
    for shape in [&[usize::MAX][..], &[usize::MAX, usize::MAX], &[1 << 31], &[0, usize::MAX], &[1 << 20, 1 << 20]] {
        assert!(interpreter.resize_input(0, shape).is_err(), "{shape:?}");
        assert!(Interpreter::builder(&model).input_shape(0, shape).build().is_err(), "{shape:?}");
    }
    interpreter.resize_input(0, &[1; 1000]).map(|()| interpreter.invoke().unwrap()).unwrap_or_default();
}
