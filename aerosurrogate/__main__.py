"""`python -m aerosurrogate`, which is also what torchrun launches."""

from aerosurrogate.cli import main

if __name__ == "__main__":
    main()
