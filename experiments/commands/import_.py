"""`sparecraft import`: make a design from existing files. One module per importer."""

from __future__ import annotations

import typer

from experiments.commands import import_compose, import_har, import_locustfile

group = typer.Typer(no_args_is_help=True)


@group.callback()
def import_() -> None:
    """Make a design from a Compose file, a HAR file, an access log or a Locust file.

    Example: sparecraft import compose compose.yaml --to my-shop
    """


group.command("compose")(import_compose.compose)
group.command("har")(import_har.har)
group.command("access-log")(import_har.access_log)
group.command("locustfile")(import_locustfile.locustfile)
