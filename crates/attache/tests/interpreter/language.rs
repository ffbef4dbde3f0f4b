//! Tests of the built-in language models.

use attache::{Interpreter, zoo};

/// Runs `count` steps of a decoder from the token 7, each with the most likely token of the one before. Returns the tokens,
/// and the logits and the number of copied bytes of the last step.
fn decoded(name: &str, count: usize) -> (Vec<i32>, Vec<f32>, u64) {
    let mut interpreter = Interpreter::builder(&zoo::model(name).unwrap()).threads(2).build().unwrap();
    let (mut tokens, mut logits, mut copied) = (vec![7], Vec::new(), 0);
    for step in 0..count {
        let before = interpreter.report().copied_bytes;
        let mut decode = interpreter.signature("decode").unwrap();
        decode.write("tokens", &[tokens[step]]).unwrap();
        decode.write("input_pos", &[step as i32]).unwrap();
        decode.invoke().unwrap();
        logits = decode.read::<f32>("logits").unwrap().to_vec();
        let most = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        tokens.push(most.0 as i32);
        carry(&mut decode, "decode");
        copied = interpreter.report().copied_bytes - before;
    }
    (tokens, logits, copied)
}

fn carry(runner: &mut attache::SignatureRunner<'_>, to: &str) {
    for layer in 0..4 {
        for kind in ["k", "v"] {
            let name = format!("kv_cache_{kind}_{layer}");
            runner.carry_to(name.as_str(), to, name.as_str()).unwrap();
        }
    }
}

#[test]
fn a_prompt_is_read_at_once_as_token_by_token() {
    for name in ["decoder_tiny", "decoder_tiny_int8", "decoder_tiny_int4"] {
        let (tokens, expected, copied) = decoded(name, 6);
        assert!(tokens[2..].iter().any(|token| *token != tokens[1]), "{name}: {tokens:?}");
        assert!(copied < 1000, "{name}: {copied} bytes were copied in a step");
        let mut interpreter = Interpreter::builder(&zoo::model(name).unwrap()).threads(2).build().unwrap();
        let mut prefill = interpreter.signature("prefill").unwrap();
        let prompt: Vec<i32> = tokens[..5].iter().copied().chain([0; 507]).collect();
        prefill.write("tokens", &prompt).unwrap();
        prefill.write("input_pos", &(0..512).collect::<Vec<i32>>()).unwrap();
        prefill.invoke().unwrap();
        carry(&mut prefill, "decode");
        let mut decode = interpreter.signature("decode").unwrap();
        decode.write("tokens", &[tokens[5]]).unwrap();
        decode.write("input_pos", &[5]).unwrap();
        decode.invoke().unwrap();
        let actual: &[f32] = decode.read("logits").unwrap();
        let most = expected.iter().fold(0f32, |most, value| most.max(value.abs()));
        let difference = expected.iter().zip(actual).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
        // Activations that are quantized to 8 bits differ where sums were rounded otherwise.
        let bound = if name == "decoder_tiny" { 1e-4 } else { 2e-2 };
        assert!(difference <= bound * most, "{name}: {difference} of {most}");
    }
}

#[test]
fn integer_weights_come_near_floats() {
    let logits = |name: &str| {
        let mut interpreter = Interpreter::builder(&zoo::model(name).unwrap()).threads(2).build().unwrap();
        interpreter.write(0, &(0..128).map(|token| token * 31 % 4096).collect::<Vec<i32>>()).unwrap();
        interpreter.write(1, &(0..128).map(|token| i32::from(token < 100)).collect::<Vec<i32>>()).unwrap();
        interpreter.invoke().unwrap();
        interpreter.read::<f32>("logits").unwrap().to_vec()
    };
    let floats = logits("bert_tiny");
    let most = floats.iter().fold(0f32, |most, value| most.max(value.abs()));
    for (name, bound) in [("bert_tiny_int8", 0.1), ("bert_tiny_int4", 0.7)] {
        let difference =
            floats.iter().zip(logits(name)).map(|(a, b)| (a - b).powi(2)).sum::<f32>() / floats.len() as f32;
        assert!(difference.sqrt() < bound * most, "{name}: {} of {most}", difference.sqrt());
    }
}

#[test]
fn weights_are_stored_once() {
    let size = |name: &str| zoo::build(name).unwrap().len();
    for (floats, bound) in [("bert_tiny", 19 << 20), ("decoder_tiny", 22 << 20)] {
        assert!(size(floats) < bound, "{floats}: {} bytes", size(floats));
        let [eight, four] = ["int8", "int4"].map(|stored| size(&format!("{floats}_{stored}")));
        assert!(eight < size(floats) / 3 && four < eight * 5 / 8, "{floats}: {eight} and {four} bytes");
    }
}
