package org.tensorflow.lite;

/** Where a runtime comes from. */
public enum RuntimeFlavor {
    /** The library that the program brings: this one. */
    APPLICATION,
    /** The library of Google Play services, which is part of Android. */
    SYSTEM
}
