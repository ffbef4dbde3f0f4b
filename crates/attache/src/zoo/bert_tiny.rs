//! An encoder of four layers for 128 tokens: `bert_tiny`, with weights of 8 bits `bert_tiny_int8`, of 4 bits
//! `bert_tiny_int4`.
//!
//! Source: Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", with a
//! width of 256, 4 heads and a vocabulary of 4,096. Inputs have the names of the published `.tflite` files. The logits are
//! those of the masked language model, over the table of embeddings.

use attache_base::DataType::Int32;

use super::language::{Language, Stored, Value};
use super::weights::{LINEAR, RECTIFIED};

const TOKENS: usize = 128;
const VOCABULARY: usize = 4096;
const WIDTH: usize = 256;
const HEADS: usize = 4;
const LAYERS: usize = 4;

/// Number of kinds of segments. Those of a sentence and the next one would be two; random indices go up to 99.
const SEGMENTS: usize = 128;

/// Width of the layer between two in a feed-forward network.
const INNER: usize = 4 * WIDTH;

/// Factor of embeddings, whose table is also the matrix of the logits, by which their standard deviation becomes 1.
const EMBEDDING: f32 = 16.0;

/// Builds the model with weights that are stored in this way.
pub(super) fn build(stored: Stored) -> Vec<u8> {
    let mut model = Language::new("BERT tiny, synthetic weights", 8, stored);
    model.begin("main");
    let [ids, mask, segments] =
        ["input_ids", "input_mask", "segment_ids"].map(|name| model.input(name, Int32, [1, TOKENS]));
    let mut value = embeddings(&mut model, &ids, &segments);
    let mask = model.padding_mask(&mask);
    for layer in 0..LAYERS {
        value = encode(&mut model, &value, &mask, &format!("layer_{layer}"));
    }
    let logits = model.linear(&value, ["word_embeddings", "logits"], VOCABULARY, (LINEAR, false));
    model.output("hidden", &value);
    model.output("logits", &logits);
    model.end("serving_default");
    model.finish()
}

fn embeddings(model: &mut Language, ids: &Value, segments: &Value) -> Value {
    let [ids, segments] = [model.list(ids, "ids"), model.list(segments, "segments")];
    let words = model.embedding(&ids, ["word_embeddings", "words"], [VOCABULARY, WIDTH], LINEAR);
    let kinds = model.embedding(&segments, ["segment_embeddings", "kinds"], [SEGMENTS, WIDTH], LINEAR);
    let value = model.add(&words, &kinds, "embeddings/add");
    let value = model.scale(&value, EMBEDDING, "embeddings/scaled");
    let value = model.reshape(&value, "embeddings/tokens", [1, TOKENS, WIDTH]);
    let places = model.places("position_embeddings", [1, TOKENS, WIDTH]);
    let value = model.add(&value, &places, "embeddings/add_1");
    model.layer_norm(&value, "embeddings/LayerNorm")
}

/// Adds a layer: attention and a feed-forward network, each normalized with what it was added to.
fn encode(model: &mut Language, input: &Value, mask: &Value, scope: &str) -> Value {
    let [query, key, value] = ["query", "key", "value"].map(|kind| {
        let name = format!("{scope}/{kind}");
        let made = model.linear(input, [&name, &format!("{name}/BiasAdd")], WIDTH, (LINEAR, true));
        let made = model.heads(&made, HEADS, &format!("{name}/heads"));
        model.exchange(&made, &format!("{name}/transposed"))
    });
    let mixed = model.attention([&query, &key, &value], mask, &format!("{scope}/attention"));
    let output = format!("{scope}/attention/output");
    let mixed = model.linear(&mixed, [&output, &format!("{output}/BiasAdd")], WIDTH, (LINEAR, true));
    let sum = model.add(&mixed, input, &format!("{output}/add"));
    let value = model.layer_norm(&sum, &format!("{output}/LayerNorm"));
    let [inner, outer] = [format!("{scope}/intermediate"), format!("{scope}/output")];
    let wide = model.linear(&value, [&inner, &format!("{inner}/BiasAdd")], INNER, (LINEAR, true));
    let wide = model.gelu(&wide, &format!("{inner}/Gelu"));
    let narrow = model.linear(&wide, [&outer, &format!("{outer}/BiasAdd")], WIDTH, (RECTIFIED, true));
    let sum = model.add(&narrow, &value, &format!("{outer}/add"));
    model.layer_norm(&sum, &format!("{outer}/LayerNorm"))
}
