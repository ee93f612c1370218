"""`python -m sparecraft`, as `sparecraft`."""

from sparecraft import main

if __name__ == "__main__":
    main()
