"""`sparecraft up`: make a design's fleet on the chosen platform."""

from __future__ import annotations

from core.terminal import JsonOption, err, out, print_json, say
from experiments.commands.on_platform import Chosen
from experiments.commands.options import DesignArgument, YesOption, confirm
from experiments.console import Narrator
from experiments.design import load_design
from experiments.testbed.fleet import bring_up


def up(
    design: DesignArgument, chosen: Chosen, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Provision a design's fleet and wait until every machine is ready.

    If it costs money, the price per hour and the highest total are shown first, and have to be
    confirmed.

    Example: sparecraft up mediawiki-noisy --yes
    """
    loaded_design = load_design(design)
    narrator = Narrator(err if as_json else out)
    offer = chosen.entry.for_up(loaded_design, chosen.options, narrator)
    if offer.question:
        confirm(offer.question, yes)
    inventory = bring_up(loaded_design, offer.platform, narrator)
    if as_json:
        print_json({**offer.about, **inventory.model_dump(mode="json")})
        return
    name = loaded_design.fleet.experiment
    for line in offer.next_steps(inventory):
        say(line)
    say(f"`sparecraft down {name}{chosen.flag}` removes it.")
