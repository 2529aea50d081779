"""`python -m reach` is the command `reach`."""

from reach._command import main

if __name__ == "__main__":
    main()
