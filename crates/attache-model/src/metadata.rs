//! Reads TFLite Metadata, which describes a model's inputs and outputs: labels of classes and normalization
//! of images. All other contents of the metadata are ignored.

use crate::archive;
use crate::error::{ModelError, ModelErrorKind};
use crate::generated::metadata::{self, AssociatedFile, AssociatedFileType, TensorMetadata};
use crate::model::Model;

/// Name of the metadata entry that describes inputs and outputs.
const ENTRY: &str = "TFLITE_METADATA";

/// Normalization of an input tensor, `(value - mean) / std`, with one mean and divisor for all channels or
/// one of each per channel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Normalization {
    /// The means, which are subtracted: one for all channels, or one per channel.
    pub mean: Vec<f32>,
    /// The standard deviations, by which the differences are divided: one for all channels, or one per
    /// channel.
    pub std: Vec<f32>,
}

impl Model {
    /// Returns the names of the associated files, which are packed into the model file.
    #[must_use]
    pub fn associated_files(&self) -> Vec<String> {
        archive::entries(self.bytes()).into_iter().map(|entry| entry.name).collect()
    }

    /// Returns the unpacked content of an associated file, which is packed into the model file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no file of this name, or if it is damaged, encrypted, too large or packed by an
    /// unsupported method.
    pub fn associated_file(&self, name: &str) -> Result<Vec<u8>, ModelError> {
        archive::unpack(self.bytes(), name)
    }

    /// Returns the class names of the model's outputs, one per line of the label file; `None` if there is no
    /// label file.
    ///
    /// The label file is the first one that the metadata of an output marks as labels. Without such a mark it
    /// is the first associated `.txt` file whose name contains "label", or else the only associated `.txt`
    /// file.
    ///
    /// # Errors
    ///
    /// Returns an error if the label file cannot be unpacked or is not UTF-8.
    pub fn labels(&self) -> Result<Option<Vec<String>>, ModelError> {
        let Some(name) = self.named_label_file().or_else(|| self.likely_label_file()) else { return Ok(None) };
        let text = String::from_utf8(self.associated_file(&name)?).map_err(|_| {
            ModelError::new(ModelErrorKind::Invalid, format!("the label file {name:?} is not text in UTF-8"))
        })?;
        Ok(Some(text.lines().map(|line| line.trim_end().to_owned()).collect()))
    }

    /// Returns the normalization of input `index` of the first subgraph, if the metadata specifies one.
    #[must_use]
    pub fn normalization(&self, index: usize) -> Option<Normalization> {
        let inputs = self.described()?.subgraph_metadata()?.iter().next()?.input_tensor_metadata()?;
        let units = (index < inputs.len()).then(|| inputs.get(index))?.process_units()?;
        let options = units.iter().find_map(|unit| unit.options_as_normalization_options())?;
        let (mean, std) = (options.mean()?.iter().collect(), options.std_()?.iter().collect());
        Some(Normalization { mean, std })
    }

    /// Returns the parsed TFLite Metadata, if it is present and well-formed.
    fn described(&self) -> Option<metadata::ModelMetadata<'_>> {
        let bytes = self.metadata_named(ENTRY)?;
        let is_known = bytes.get(4..8) == Some(metadata::MODEL_METADATA_IDENTIFIER.as_bytes());
        is_known.then(|| metadata::root_as_model_metadata(bytes).ok())?
    }

    fn named_label_file(&self) -> Option<String> {
        let outputs = self.described()?.subgraph_metadata()?.iter().next()?.output_tensor_metadata()?;
        let is_labels = |file: &AssociatedFile<'_>| {
            matches!(file.type_(), AssociatedFileType::TENSOR_AXIS_LABELS | AssociatedFileType::TENSOR_VALUE_LABELS)
        };
        let of =
            |tensor: TensorMetadata<'_>| Some(tensor.associated_files()?.iter().find(is_labels)?.name()?.to_owned());
        outputs.iter().find_map(of)
    }

    fn likely_label_file(&self) -> Option<String> {
        let mut texts = self.associated_files();
        texts.retain(|name| name.to_lowercase().ends_with(".txt"));
        let labelled = texts.iter().position(|name| name.to_lowercase().contains("label"));
        match (labelled, texts.len()) {
            (Some(index), _) => Some(texts.swap_remove(index)),
            (None, 1) => texts.pop(),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use flatbuffers::FlatBufferBuilder;

    use super::*;
    use crate::ModelBuilder;
    use crate::archive::tests::append;

    /// Returns TFLite Metadata with a normalization of one input and the label file `labels` of one output.
    fn described(labels: &str) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let mean = builder.create_vector(&[127.5f32]);
        let std = builder.create_vector(&[128.0f32]);
        let arguments = metadata::NormalizationOptionsArgs { mean: Some(mean), std_: Some(std) };
        let options = metadata::NormalizationOptions::create(&mut builder, &arguments).as_union_value();
        let options_type = metadata::ProcessUnitOptions::NormalizationOptions;
        let unit = metadata::ProcessUnitArgs { options_type, options: Some(options) };
        let unit = metadata::ProcessUnit::create(&mut builder, &unit);
        let process_units = Some(builder.create_vector(&[unit]));
        let input = metadata::TensorMetadataArgs { process_units, ..Default::default() };
        let input = metadata::TensorMetadata::create(&mut builder, &input);
        let name = Some(builder.create_string(labels));
        let type_ = AssociatedFileType::TENSOR_VALUE_LABELS;
        let file = metadata::AssociatedFileArgs { name, type_, ..Default::default() };
        let file = AssociatedFile::create(&mut builder, &file);
        let associated_files = Some(builder.create_vector(&[file]));
        let output = metadata::TensorMetadataArgs { associated_files, ..Default::default() };
        let output = TensorMetadata::create(&mut builder, &output);
        let input_tensor_metadata = Some(builder.create_vector(&[input]));
        let output_tensor_metadata = Some(builder.create_vector(&[output]));
        let subgraph =
            metadata::SubGraphMetadataArgs { input_tensor_metadata, output_tensor_metadata, ..Default::default() };
        let subgraph = metadata::SubGraphMetadata::create(&mut builder, &subgraph);
        let subgraph_metadata = Some(builder.create_vector(&[subgraph]));
        let root = metadata::ModelMetadataArgs { subgraph_metadata, ..Default::default() };
        let root = metadata::ModelMetadata::create(&mut builder, &root);
        metadata::finish_model_metadata_buffer(&mut builder, root);
        builder.finished_data().to_vec()
    }

    fn model(metadata: Option<Vec<u8>>, file: Option<&str>) -> Model {
        let mut builder = ModelBuilder::new("labelled");
        builder.subgraph("main");
        metadata.map(|bytes| builder.metadata(ENTRY, bytes).finish());
        let bytes = builder.finish();
        let bytes = file.map_or(bytes.clone(), |name| append(&bytes, name, b"cat\r\ndog\n", true, true));
        Model::from_bytes(bytes).unwrap()
    }

    #[test]
    fn labels_are_found_by_metadata_or_by_name() {
        let animals = Some(vec!["cat".to_owned(), "dog".to_owned()]);
        assert_eq!(model(None, None).labels().unwrap(), None);
        assert_eq!(model(None, Some("Labels.TXT")).labels().unwrap(), animals);
        assert_eq!(model(None, Some("readme.md")).labels().unwrap(), None);
        assert_eq!(model(Some(described("animals")), Some("animals")).labels().unwrap(), animals);
        let missing = model(Some(described("animals")), Some("plants")).labels().unwrap_err();
        assert_eq!(missing.kind(), ModelErrorKind::NotFound);
    }

    #[test]
    fn normalization_is_read() {
        let expected = Normalization { mean: vec![127.5], std: vec![128.0] };
        assert_eq!(model(Some(described("x")), None).normalization(0), Some(expected));
        assert_eq!(model(Some(described("x")), None).normalization(1), None);
        assert_eq!(model(Some(b"short".to_vec()), None).normalization(0), None);
        assert_eq!(model(None, None).normalization(0), None);
    }
}
