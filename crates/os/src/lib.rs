//! Frames, objects, address spaces, faults and the one door to translations.
