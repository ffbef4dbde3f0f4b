//! A decoder of four layers with a cache for 1,024 tokens: `decoder_tiny`, with weights of 8 bits `decoder_tiny_int8`, of 4
//! bits `decoder_tiny_int4`.
//!
//! Source: the architecture of Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models" (root mean square
//! normalization, rotated queries and keys, gated feed-forward networks), with a width of 256, 4 heads and a vocabulary of
//! 4,096, in the form of today's converters: the signature `prefill` reads 512 tokens, `decode` one. Keys and values of all
//! tokens so far are inputs and outputs `kv_cache_k_0`, `kv_cache_v_0`, …, `[1, heads, 1024, width of a head]`, of which
//! a run replaces those from the first of the positions `input_pos` on. Other positions follow that one without a gap.

use attache_base::DataType::{Float32, Int32};

use super::language::{Language, Stored, Value};
use super::weights::{LINEAR, LOGITS, RECTIFIED};

const CACHE: usize = 1024;
const PROMPT: usize = 512;
const VOCABULARY: usize = 4096;
const WIDTH: usize = 256;
const HEADS: usize = 4;
const HEAD: usize = WIDTH / HEADS;
const LAYERS: usize = 4;

/// Width of the layer between two in a feed-forward network.
const INNER: usize = 3 * WIDTH;

/// Factor of embeddings, by which their standard deviation becomes 1. The logits have a matrix of their own: with synthetic
/// weights, the most likely token over the table of embeddings would be the last one again.
const EMBEDDING: f32 = 16.0;

/// What all layers of a signature use.
struct Positions {
    /// Cosines and sines of the angles by which heads are rotated.
    angles: [Value; 2],
    mask: Value,
    /// First index of the block of a cache that is replaced.
    start: Value,
}

/// Builds the model with weights that are stored in this way.
pub(super) fn build(stored: Stored) -> Vec<u8> {
    let mut model = Language::new("Decoder tiny, synthetic weights", 9, stored);
    for (key, tokens) in [("decode", 1), ("prefill", PROMPT)] {
        signature(&mut model, key, tokens);
    }
    model.finish()
}

/// Adds a signature that reads so many tokens.
fn signature(model: &mut Language, key: &str, tokens: usize) {
    model.begin(key);
    let ids = model.input("tokens", Int32, [1, tokens]);
    let places = model.input("input_pos", Int32, [tokens]);
    let caches: Vec<_> = (0..LAYERS)
        .map(|layer| {
            ["k", "v"].map(|kind| {
                let name = format!("kv_cache_{kind}_{layer}");
                (model.input(&name, Float32, [1, HEADS, CACHE, HEAD]), name)
            })
        })
        .collect();
    let ids = model.list(&ids, "ids");
    let value = model.embedding(&ids, ["embedder", "embedded"], [VOCABULARY, WIDTH], LINEAR);
    let value = model.scale(&value, EMBEDDING, "embedded/scaled");
    let mut value = model.reshape(&value, "embedded/tokens", [1, tokens, WIDTH]);
    let positions = positions(model, &places);
    for (layer, caches) in caches.iter().enumerate() {
        value = decode(model, &value, caches, &positions, &format!("layer_{layer}"));
    }
    let value = model.last_token(&value, "last");
    let value = model.rms_norm(&value, "final_norm");
    let logits = model.linear(&value, ["lm_head", "logits"], VOCABULARY, (LOGITS, false));
    model.output("logits", &logits);
    model.end(key);
}

fn positions(model: &mut Language, places: &Value) -> Positions {
    let tokens = places.shape.elements();
    let mut angles = |name: &str, of: fn(f64) -> f64| {
        let value = move || {
            let angle = |place: usize, index: usize| place as f64 * 1e4f64.powf(-(index as f64) / (HEAD / 2) as f64);
            let rows = (0..CACHE).flat_map(|place| (0..HEAD / 2).map(move |index| (place, index)));
            rows.map(|(place, index)| of(angle(place, index)) as f32).collect()
        };
        let rows = model.rows_of(places, [&format!("{name}_table"), name], [CACHE, HEAD / 2], value);
        model.reshape(&rows, &format!("{name}/heads"), [1, tokens, 1, HEAD / 2])
    };
    let angles = [angles("cos", f64::cos), angles("sin", f64::sin)];
    Positions { angles, mask: model.causal_mask(places, CACHE), start: model.cache_start(places) }
}

/// Adds a layer: attention to the updated caches and a gated feed-forward network, each added to its normalized input.
fn decode(
    model: &mut Language,
    input: &Value,
    caches: &[(Value, String); 2],
    positions: &Positions,
    scope: &str,
) -> Value {
    let value = model.rms_norm(input, &format!("{scope}/attention_norm"));
    let [query, key, fresh] = ["query", "key", "value"].map(|kind| {
        let name = format!("{scope}/{kind}");
        let made = model.linear(&value, [&name, &format!("{name}/MatMul")], WIDTH, (LINEAR, false));
        let mut made = model.heads(&made, HEADS, &format!("{name}/heads"));
        if kind != "value" {
            let [cos, sin] = &positions.angles;
            made = model.rotate(&made, [cos, sin], &format!("{name}/rotated"));
        }
        model.exchange(&made, &format!("{name}/transposed"))
    });
    let [keys, values] = [(&caches[0], &key), (&caches[1], &fresh)].map(|((cache, name), block)| {
        let updated = model.update_cache(cache, block, &positions.start, &format!("{name}/updated"));
        model.output(name, &updated);
        updated
    });
    let mixed = model.attention([&query, &keys, &values], &positions.mask, &format!("{scope}/attention"));
    let output = format!("{scope}/attention/output");
    let mixed = model.linear(&mixed, [&output, &format!("{output}/MatMul")], WIDTH, (LINEAR, false));
    let sum = model.add(input, &mixed, &format!("{output}/add"));
    let value = model.rms_norm(&sum, &format!("{scope}/feed_norm"));
    let mut wide = |kind: &str| {
        let name = format!("{scope}/{kind}");
        model.linear(&value, [&name, &format!("{name}/MatMul")], INNER, (LINEAR, false))
    };
    let [gate, up] = [wide("gate"), wide("up")];
    let gate = model.silu(&gate, &format!("{scope}/silu"));
    let wide = model.multiply(&gate, &up, &format!("{scope}/gated"));
    let down = format!("{scope}/down");
    let narrow = model.linear(&wide, [&down, &format!("{down}/MatMul")], WIDTH, (RECTIFIED, false));
    model.add(&sum, &narrow, &format!("{down}/add"))
}
