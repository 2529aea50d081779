"""The native part of the package, which only the package uses."""

from typing import Any

def __getattr__(name: str) -> Any: ...
