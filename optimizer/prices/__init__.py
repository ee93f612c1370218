"""Price books: the price of a machine, with date and source.

`ec2.toml` and `on-prem.toml` are the built-in books. Read `instance.py` first (the content of a
book), then `rented.py` and `owned.py` (the two kinds of file, and the monthly price of an owned
machine), then `refresh.py` (today's EC2 prices from AWS).
"""

from optimizer.prices.book import BOOK, BUILT_IN, load_prices, price_book
from optimizer.prices.instance import Instance, MonthlyCost, PriceBook

__all__ = [
    "BOOK",
    "BUILT_IN",
    "Instance",
    "MonthlyCost",
    "PriceBook",
    "load_prices",
    "price_book",
]
