"""The price book: what a machine costs, when that was true, and who said so (`ec2.toml`)."""

from optimizer.prices.book import BOOK, HOURS_PER_MONTH, Instance, PriceBook, load_prices

__all__ = ["BOOK", "HOURS_PER_MONTH", "Instance", "PriceBook", "load_prices"]
