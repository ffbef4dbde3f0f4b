//! An LSTM of 128 units that reads a digit row by row: `lstm_128`.
//!
//! Source: Hochreiter and Schmidhuber 1997, "Long Short-Term Memory", in the form and size of TensorFlow's common
//! example: 28 rows of 28 pixels through a `BasicLSTMCell`, unrolled by `static_rnn`, and a layer of 10 classes over
//! the last activation. Each step is one LSTM operator with the basic kernel, which is what the converter makes of the
//! cell.

use super::network::Network;
use super::weights::LOGITS;

/// Number of rows of the image, and of pixels in each row.
const SIZE: usize = 28;

const UNITS: usize = 128;

const CLASSES: usize = 10;

/// Gain for the weights of the LSTM's gates. It is large because the mean square of their inputs is small:
/// the inputs are pixels, and activations that start at zero.
const GATES: f32 = 12.0;

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("LSTM 128, synthetic weights", 6);
    let image = network.input("input", [1, SIZE, SIZE]);
    let rows = network.unpack_rows::<SIZE>(&image, "unstack");
    let value = network.lstm(&rows, "rnn/basic_lstm_cell", UNITS, GATES);
    let value = network.fully_connected(&value, ["logits", "logits/add"], CLASSES, LOGITS);
    let value = network.softmax(&value, "Softmax");
    network.output("Softmax", &value);
    network
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::super::tests::{counts, parameters};
    use super::*;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let operators = [("FULLY_CONNECTED", 1), ("LSTM", 28), ("SOFTMAX", 1), ("UNPACK", 1)];
        assert_eq!(counts(&model), operators.map(|(name, count)| (name.to_owned(), count)));
        let cell = 4 * UNITS * (SIZE + UNITS + 1);
        let classifier = CLASSES * (UNITS + 1);
        assert_eq!(parameters(&model), cell + classifier);
    }
}
