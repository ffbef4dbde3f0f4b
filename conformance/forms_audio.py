"""The custom operators for sound: spectrograms and mel-frequency cepstral coefficients."""

import numpy as np
from flatbuffers import flexbuffers

PLAIN = ("plain", "default")  # LiteRT registers these operators in one set of kernels alone


def packed(fields):
    """The options of a custom operator, a map in a FlexBuffer."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in fields.items():
            add = {bool: builder.Bool, int: builder.Int, float: builder.Float}[type(value)]
            add(name, value)
    return bytes(builder.Finish())


def sound(draw, samples, channels):
    """Noise over tones."""
    time = np.arange(samples)[:, None]
    tones = np.sin(0.3 * time + np.arange(channels)) + 0.5 * np.cos(1.7 * time)
    return (draw(samples, channels, low=-0.3, high=0.3) + tones).astype(np.float32)


def spectrogram(model, value, window, stride, squared):
    fields = packed({"window_size": window, "stride": stride, "magnitude_squared": squared})
    return model.operator("AudioSpectrogram", [value], custom=fields, shape=(1, 1, 1))


def spectrograms(suite):
    def case(form, samples, channels, window, stride, squared=True):
        def build(model, draw):
            return [spectrogram(model, model.input(sound(draw, samples, channels)), window, stride, squared)]
        suite.case("AudioSpectrogram", form, build, kernels=PLAIN)

    case("power_of_two", 200, 1, 64, 32)
    case("magnitudes", 200, 1, 64, 32, False)
    case("extended", 200, 1, 50, 20)
    case("extended_magnitudes", 200, 1, 33, 7, False)
    case("two_channels", 120, 2, 30, 11)
    case("five_channels", 70, 5, 16, 16, False)
    case("gaps", 300, 1, 16, 40)
    case("one_window", 64, 2, 64, 3)
    case("too_short", 63, 2, 64, 3)
    case("shortest_window", 9, 1, 2, 1)
    case("window_of_3", 9, 1, 3, 2)
    case("long", 2000, 1, 640, 320)

    def constant(model, draw):
        return [spectrogram(model, model.constant(sound(draw, 80, 1)), 20, 10, True)]
    suite.case("AudioSpectrogram", "constant", constant, kernels=PLAIN)


def coefficients(suite):
    def mfcc(model, value, rate, lower, upper, filters, kept):
        fields = packed({"upper_frequency_limit": float(upper), "lower_frequency_limit": float(lower),
                         "filterbank_channel_count": filters, "dct_coefficient_count": kept})
        return model.operator("Mfcc", [value, rate], custom=fields, shape=(1, 1, kept))

    def case(form, shape, rate=16000, lower=20, upper=4000, filters=40, kept=13, fed=False, scale=1.0):
        def build(model, draw):
            value = model.input((draw(*shape, low=0, high=50) * np.float32(scale)).astype(np.float32))
            given = np.array([rate], np.int32)
            return [mfcc(model, value, model.input(given) if fed else model.constant(given), lower, upper, filters, kept)]
        suite.case("Mfcc", form, build, kernels=PLAIN)

    case("usual", (1, 3, 257))
    case("two_channels", (2, 3, 257))
    case("all_coefficients", (1, 2, 129), filters=20, kept=20)
    case("one_coefficient", (1, 2, 129), filters=20, kept=1)
    case("one_filter", (1, 2, 129), filters=1, kept=1)
    case("few_filters", (1, 2, 129), filters=5, kept=3)
    case("narrow_filters", (1, 2, 65), filters=80, kept=13)
    case("high_limits", (1, 2, 129), lower=300, upper=7900)
    case("from_zero", (1, 2, 129), lower=0, upper=3000)
    case("other_rate", (1, 2, 129), rate=44100, upper=15000)
    case("fed_rate", (1, 2, 129), fed=True)
    case("silence", (1, 2, 129), scale=0.0)
    case("quiet", (1, 2, 129), scale=1e-20)
    case("nothing", (1, 0, 129))
    case("fractions_of_hertz", (1, 2, 100), lower=20.5, upper=3999.9)

    def of_sound(model, draw):
        squares = spectrogram(model, model.input(sound(draw, 1200, 1)), 480, 240, True)
        return [mfcc(model, squares, model.constant(np.array([16000], np.int32)), 20, 4000, 40, 13)]
    suite.case("Mfcc", "of_sound", of_sound, kernels=PLAIN)


FAMILIES = (spectrograms, coefficients)
