"""`python -m reach` is the command `reach`."""

from reach._command import main

main()
