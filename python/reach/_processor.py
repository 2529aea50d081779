"""Checks the processor before native code runs that it may not have."""


def check() -> None:
    """Raises ImportError on a processor without AVX2, for which the native part is not built."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), None)
    except OSError:
        return
    if flags is not None and "avx2" not in flags.split():
        raise ImportError("reach needs a processor with AVX2 (2013 and later), and this one has none; build it from its source")
