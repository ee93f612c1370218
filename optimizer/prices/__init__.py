"""Price books: what a machine costs, when that was true, and who said so.

`ec2.toml` and `on-prem.toml` are the built-in books. Read `instance.py` first (what a book holds),
then `rented.py` and `owned.py` (the two kinds of file and how owning is turned into a monthly
price), then `refresh.py` (today's EC2 prices from AWS).
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
